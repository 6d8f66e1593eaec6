package kappa;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * Whether the sample of a row of "statistics" is the JSON that "detect" reads there: of a label, of a change or a call, or names of
 * what a limit has left out. What is otherwise would end the job that reads it.
 */
final class SampleText {
  private static final JsonFactory JSON = RecordText.json();
  private static final Set LABEL = set(new String[] {"label", "series"});
  private static final Set CALL = set(new String[] {"client", "server"});
  private static final Set ANNOUNCED = set(new String[] {"change", "service", "host", "version", "comment", "author", "client", "server",
      "removed", "at"});

  /** {"label": text, "series": [text, ...]} as a string of JSON, with its quotes. */
  static boolean isLabel(byte[] text, int from, int to) {
    Set found = members(text, from, to, LABEL);
    return found != null && found.size() == LABEL.size();
  }

  /** An AnnouncedChange or an AnnouncedCall (models/records/records.py) as a string of JSON, with its quotes. */
  static boolean isAnnounced(byte[] text, int from, int to) {
    Set found = members(text, from, to, ANNOUNCED);
    return found != null
        && (found.containsAll(CALL) || found.contains("at") && found.contains("change") && !found.contains("client"));
  }

  /** The names in an object as a string of JSON, if they are among those allowed and their values what they should be; null for anything else. */
  private static Set members(byte[] text, int from, int to, Set allowed) {
    try {
      JsonParser parser = inner(text, from, to);
      Set found = new HashSet();
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.getCurrentName();
        parser.nextToken();
        if (!allowed.contains(name) || !isValue(name, parser)) {
          return null;
        }
        found.add(name);
      }
      return parser.nextToken() == null ? found : null;
    } catch (IOException noJson) {
      return null;
    }
  }

  private static boolean isValue(String name, JsonParser parser) throws IOException {
    JsonToken token = parser.currentToken();
    if ("series".equals(name)) {
      return areTexts(parser);
    }
    if ("removed".equals(name)) {
      return token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE;
    }
    if ("at".equals(name)) {
      return token == JsonToken.VALUE_NUMBER_INT && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
    }
    return isText(parser);
  }

  /** [text, ...] as a string of JSON, with its quotes. */
  static boolean areNames(byte[] text, int from, int to) {
    try {
      JsonParser parser = inner(text, from, to);
      parser.nextToken();
      return areTexts(parser) && parser.nextToken() == null;
    } catch (IOException noJson) {
      return false;
    }
  }

  private static JsonParser inner(byte[] text, int from, int to) throws IOException {
    JsonParser outer = JSON.createParser(text, from, to - from);
    outer.nextToken();
    return JSON.createParser(outer.getText());
  }

  private static boolean areTexts(JsonParser parser) throws IOException {
    boolean good = parser.currentToken() == JsonToken.START_ARRAY;
    while (good && parser.nextToken() != JsonToken.END_ARRAY) {
      good = isText(parser);
    }
    return good;
  }

  /** Whether the token is a text, which half of a pair is not: Python could not write it. */
  private static boolean isText(JsonParser parser) throws IOException {
    return parser.currentToken() == JsonToken.VALUE_STRING && StandardCharsets.UTF_8.newEncoder().canEncode(parser.getText());
  }

  private static Set set(String[] words) {
    return new HashSet(Arrays.asList(words));
  }
}
