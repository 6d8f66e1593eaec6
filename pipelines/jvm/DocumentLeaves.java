package kappa;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;

/**
 * A JSON object within the limits of `RecordText` -> an array of (path, value, kind) of what is no object in it, and of objects that are not opened, in the
 * order of keys. The value is as it was written; of an object or an array its JSON; null of null.
 */
public class DocumentLeaves implements UDF1 {
  private static final String NUMBER = "number", OBJECT = "object", OTHER = "other";
  private static final JsonFactory JSON = RecordText.lenient();
  private static final Row NOTHING = RowFactory.create(new Object[] {null, null, OTHER});

  private final int depth;
  private final int longest;

  /** Objects in so many levels are opened; of a path, and of a key in it, so many characters are kept. */
  public DocumentLeaves(int depth, int longest) {
    this.depth = depth;
    this.longest = longest;
  }

  @Override
  public Object call(Object json) throws IOException {
    if (json == null) {
      return null;
    }
    JsonParser parser = JSON.createParser((String) json);
    try {
      parser.nextToken();
      List leaves = new ArrayList();
      add("", value(parser, 0), leaves);
      return leaves.toArray();
    } finally {
      parser.close();
    }
  }

  /** The members of the object that begins here, by their keys; or the leaf that is here, without its path. */
  private Object value(JsonParser parser, int level) throws IOException {
    JsonToken token = parser.currentToken();
    if (token == JsonToken.START_OBJECT && level < depth) {
      Map members = new TreeMap();
      for (String key = parser.nextFieldName(); key != null; key = parser.nextFieldName()) {
        parser.nextToken();
        members.put(key, value(parser, level + 1));
      }
      return members;
    }
    if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) {
      return RowFactory.create(new Object[] {null, text(parser), token == JsonToken.START_OBJECT ? OBJECT : OTHER});
    }
    if (token == JsonToken.VALUE_NULL) {
      return NOTHING;
    }
    return RowFactory.create(new Object[] {null, parser.getText(), token.isNumeric() ? NUMBER : OTHER});
  }

  /** The JSON of the object or array that begins here. */
  private static String text(JsonParser parser) throws IOException {
    StringWriter text = new StringWriter();
    JsonGenerator writer = JSON.createGenerator(text);
    writer.copyCurrentStructure(parser);
    writer.close();
    return text.toString();
  }

  private void add(String path, Object value, List leaves) {
    if (value instanceof Row) {
      Row leaf = (Row) value;
      leaves.add(RowFactory.create(new Object[] {path, leaf.get(1), leaf.get(2)}));
      return;
    }
    for (Iterator members = ((Map) value).entrySet().iterator(); members.hasNext();) {
      Map.Entry member = (Map.Entry) members.next();
      String key = RecordText.cut((String) member.getKey(), longest);
      add(path.isEmpty() ? key : RecordText.cut(path + "." + key, longest), member.getValue(), leaves);
    }
  }
}
