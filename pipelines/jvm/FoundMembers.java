package kappa;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;

/**
 * The members of a record that are wanted, as text: of an object or an array, its JSON. Found in the pass over its tokens that looks at its limits, so
 * that it is parsed once, whatever form it has.
 */
final class FoundMembers {
  final Object[] texts; // by the numbers of the members; null for what is not there, or is null
  private final boolean[] whole; // whether the key was the whole path: this counts more than an object of the same meaning
  private final MemberPaths.Node[] at = new MemberPaths.Node[RecordText.MOST_DEPTH + 2]; // by depth: null in what is not wanted
  private final long[] begin = new long[RecordText.MOST_DEPTH + 2]; // of an object or array that is wanted
  private final MemberPaths.Node[] opened = new MemberPaths.Node[RecordText.MOST_DEPTH + 2]; // which it is
  private final String record;
  private MemberPaths.Node next; // what the key that was read last leads to
  private boolean key; // whether it is a whole path

  FoundMembers(MemberPaths paths, String record) {
    texts = new Object[paths.many];
    whole = new boolean[paths.many];
    at[1] = paths.root;
    this.record = record;
  }

  /** Looks at a token; `depth` is that of the object or array in which one is after it. */
  void take(JsonParser parser, JsonToken token, int depth) throws IOException {
    if (token == JsonToken.FIELD_NAME) {
      next = at[depth] == null ? null : at[depth].child(parser.currentName());
      key = next != null && depth == 1 && parser.currentName().indexOf('.') > 0;
    } else if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) {
      boolean object = token == JsonToken.START_OBJECT;
      opened[depth] = next != null && next.wants(object ? MemberPaths.OBJECT : MemberPaths.LIST) ? next : null;
      begin[depth] = opened[depth] == null ? 0 : parser.getTokenLocation().getCharOffset();
      if (depth > 1 || !object) {
        at[depth] = object ? next : null;
      }
      next = null;
    } else if (token == JsonToken.END_OBJECT || token == JsonToken.END_ARRAY) {
      MemberPaths.Node closed = opened[depth + 1];
      if (closed != null) {
        set(closed, record.substring((int) begin[depth + 1], (int) parser.getCurrentLocation().getCharOffset()), false);
      }
      next = null;
    } else {
      if (next != null && token != JsonToken.VALUE_NULL && next.wants(MemberPaths.SCALAR)) {
        set(next, parser.getText(), key);
      }
      next = null;
    }
  }

  private void set(MemberPaths.Node member, String text, boolean key) {
    if (texts[member.number] == null || key && !whole[member.number]) {
      texts[member.number] = text;
      whole[member.number] = key;
    }
  }
}
