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
  private static final Set CHANGE = set(new String[] {"change", "service", "host", "version", "comment", "author"});
  private static final Set CALL = set(new String[] {"client", "server"});

  /** {"label": text, "series": [text, ...]} as a string of JSON, with its quotes. */
  static boolean isLabel(byte[] text, int from, int to) {
    try {
      JsonParser parser = inner(text, from, to);
      Set found = new HashSet();
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return false;
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.getCurrentName();
        parser.nextToken();
        if (!("label".equals(name) ? isText(parser) : "series".equals(name) && areTexts(parser))) {
          return false;
        }
        found.add(name);
      }
      return found.size() == 2 && parser.nextToken() == null;
    } catch (IOException noJson) {
      return false;
    }
  }

  /** An AnnouncedChange or an AnnouncedCall (models/records/records.py) as a string of JSON, with its quotes. */
  static boolean isAnnounced(byte[] text, int from, int to) {
    try {
      JsonParser parser = inner(text, from, to);
      Set found = new HashSet();
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return false;
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.getCurrentName();
        JsonToken token = parser.nextToken();
        boolean good = CHANGE.contains(name) || CALL.contains(name) ? isText(parser)
            : "removed".equals(name) ? token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE
            : "at".equals(name) && token == JsonToken.VALUE_NUMBER_INT && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
        if (!good) {
          return false;
        }
        found.add(name);
      }
      boolean whole = found.containsAll(CALL) || found.contains("at") && found.contains("change") && !found.contains("client");
      return whole && parser.nextToken() == null;
    } catch (IOException noJson) {
      return false;
    }
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
