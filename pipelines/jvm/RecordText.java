package kappa;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;

/**
 * The bytes of a record -> (json, line, reason): its text where that is one JSON object within the limits below; else why not,
 * and the beginning of what may be a line of syslog. An object is made of OpenTelemetry's protobuf (OtlpText), and one with the
 * member `collectd` of collectd's array. Where members are wanted (MemberPaths), there is one more: a row of their texts.
 *
 * <p>Whatever looks at a record but for the readers of flat ones looks at what this answers. So Spark's functions see no
 * record that is large, deep or of very many parts, and their time is bounded. What one pass over the record costs is in
 * proportion to its length.
 *
 * <p>The readers of flat records skip it. They give way above `MOST_FLAT` bytes, and a record up to that length cannot exceed
 * a limit other than those that `json()` gives to their parser as well: both refuse the same, but for keys of one hash
 * (`KeyHashes`), which do harm to Spark's parsers alone.
 */
public class RecordText implements UDF1 {
  static final int MOST_BYTES = 1 << 20;
  static final String MARK = "stand-in";
  static final int MOST_FLAT = 12 << 10; // bytes; a number outside of arrays takes six of them, with its key
  static final int MOST_DEPTH = 32;
  static final int MOST_DIGITS = 400; // of a number, its exponent's included
  static final int MOST_KEY = 16 << 10; // characters
  static final int MOST_ELEMENTS = 10000; // of an array, members of an object
  // What a record costs is in proportion to these: at most 50 ms of a core (tests/streaming/test_record_costs.py).
  static final int MOST_POINTS = 2048; // points or lines
  static final int MOST_CONTAINERS = 10000; // objects and arrays
  private static final int MOST_LINE = 1 << 15; // characters of a line of syslog that are looked at
  private static final int SHOWN = 64; // characters of a key in a reason
  private static final String BYTE_ORDER_MARK = "\ufeff"; // some programs begin UTF-8 with it
  static final String TRACES = "traces are not read, only metrics and logs";

  private static final JsonFactory JSON = lenient();

  /**
   * What makes parsers with the limits that both readers share. A key must not come twice in an object.
   *
   * <p>They share no table of keys, which keys of one hash would spoil for the records behind them (`KeyHashes`): a later one with many
   * new keys would end in an exception.
   */
  static JsonFactory json() {
    JsonFactory json = new JsonFactoryBuilder().disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES).build();
    json.setStreamReadConstraints(StreamReadConstraints.builder()
        .maxNestingDepth(MOST_DEPTH).maxNumberLength(MOST_DIGITS).maxNameLength(MOST_KEY).build());
    return json.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION);
  }

  private final String paths;
  private transient MemberPaths wanted;

  public RecordText() {
    this("");
  }

  /** `paths` as in `MemberPaths`. */
  public RecordText(String paths) {
    this.paths = paths;
  }

  /** What makes the parsers of all but flat records. */
  static JsonFactory lenient() {
    return json().enable(JsonParser.Feature.ALLOW_SINGLE_QUOTES).enable(JsonParser.Feature.ALLOW_NON_NUMERIC_NUMBERS);
  }

  @Override
  public Object call(Object given) throws IOException {
    byte[] record = (byte[]) given;
    if (record == null || record.length == 0) {
      return row(null, null, "empty value");
    }
    if (record.length > MOST_BYTES) {
      return row(null, null, "a record of " + length(record) + " bytes, more than " + MOST_BYTES);
    }
    if (OtlpText.looksLike(record)) {
      try {
        return ofOtlp(OtlpText.of(record));
      } catch (OtlpText.Refused refused) {
        return row(null, null, refused.getMessage());
      }
    }
    String text = decoded(record);
    if (text == null) {
      return row(null, null, "not UTF-8");
    }
    if (text.startsWith(BYTE_ORDER_MARK)) {
      text = text.substring(1);
    }
    FoundMembers members = found(text);
    String reason = problem(text, members);
    if (reason != null) {
      return row(null, text.startsWith("<") ? beginning(text) : null, reason);
    }
    return isArray(text) ? ofOne("collectd", text) : row(text, members);
  }

  private MemberPaths wanted() {
    if (wanted == null) {
      wanted = new MemberPaths(paths);
    }
    return wanted;
  }

  private FoundMembers found(String text) {
    return paths.isEmpty() ? null : new FoundMembers(wanted(), text);
  }

  /** The row of an object that has one member. */
  private Object ofOne(String name, String json) {
    String text = "{\"" + name + "\":" + json + "}";
    FoundMembers members = found(text);
    MemberPaths.Node wants = members == null ? null : wanted().root.child(name);
    if (wants != null) {
      members.texts[wants.number] = json;
    }
    return row(text, members);
  }

  /** The same of what OtlpText made, which may be an object without a member. */
  private Object ofOtlp(String json) {
    int colon = json.indexOf(':');
    return colon < 0 ? row(json, found(json)) : ofOne(json.substring(2, colon - 1), json.substring(colon + 1, json.length() - 1));
  }

  /** Whether a text is an array, of an object or an array. */
  private static boolean isArray(String text) {
    int array = text.indexOf('[');
    return array >= 0 && array < text.indexOf('{');
  }

  /** The bytes of a record: where it is a stand-in (ByteArrayDeserializer), those of the record that it stands for. */
  private static long length(byte[] record) {
    boolean mark = record.length == MOST_BYTES + 8 + 32 + MARK.length();
    for (int i = 0; mark && i < MARK.length(); i++) {
      mark = record[record.length - MARK.length() + i] == MARK.charAt(i);
    }
    return mark ? ByteBuffer.wrap(record).getLong(MOST_BYTES) : record.length;
  }

  private Object row(String json, FoundMembers members) {
    return row(json, null, null, members == null ? null : RowFactory.create(members.texts));
  }

  private Object row(String json, String line, String reason) {
    return row(json, line, reason, null);
  }

  private Object row(String json, String line, String reason, Object members) {
    return RowFactory.create(paths.isEmpty() ? new Object[] {json, line, reason} : new Object[] {json, line, reason, members});
  }

  /** The text of bytes; null where they are not UTF-8. */
  static String decoded(byte[] record) {
    if (isAscii(record)) {
      return new String(record, StandardCharsets.ISO_8859_1);
    }
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(record)).toString();
    } catch (CharacterCodingException notText) {
      return null;
    }
  }

  static boolean isAscii(byte[] record) {
    int bits = 0;
    for (int i = 0; i < record.length; i++) {
      bits |= record[i];
    }
    return bits >= 0;
  }

  /** The first characters of a text, at most so many; two halves of one count once. */
  static String cut(String text, int most) {
    boolean whole = text.length() <= most || text.length() < 2 * most && text.codePointCount(0, text.length()) <= most;
    return whole ? text : text.substring(0, text.offsetByCodePoints(0, most));
  }

  private static String beginning(String text) {
    if (text.length() <= MOST_LINE) {
      return text;
    }
    return text.substring(0, Character.isHighSurrogate(text.charAt(MOST_LINE - 1)) ? MOST_LINE - 1 : MOST_LINE);
  }

  /** Why a text is not one JSON object within the limits; null where it is. Looks for members, if any are wanted. */
  private static String problem(String text, FoundMembers members) throws IOException {
    JsonParser parser = JSON.createParser(text);
    RecordLimits limits = new RecordLimits();
    KeyHashes keys = new KeyHashes();
    boolean ended = false, collectd = false;
    try {
      JsonToken first = parser.nextToken();
      if (first == null) {
        return "not a JSON object";
      }
      String reason = counted(limits, parser, first);
      if (members != null) {
        members.take(parser, first, limits.depth());
      }
      while (reason == null && limits.depth() > 0) {
        JsonToken next = parser.nextToken();
        reason = next == null ? "not JSON" : counted(limits, parser, next);
        if (reason == null && members != null) {
          members.take(parser, next, limits.depth());
        }
        collectd |= next == JsonToken.FIELD_NAME && limits.depth() == 2 && parser.currentName().equals("dsnames");
        if (reason == null && next == JsonToken.FIELD_NAME && keys.tooMany(parser.currentName())) {
          reason = "more than " + KeyHashes.MOST + " keys of one hash";
        }
      }
      if (reason != null) {
        return reason;
      }
      ended = true;
      if (parser.nextToken() != null) {
        return "something after the JSON value";
      }
      return first == JsonToken.START_OBJECT || first == JsonToken.START_ARRAY && collectd ? null : "not a JSON object";
    } catch (JsonProcessingException broken) {
      return ended ? "something after the JSON value" : why(parser, String.valueOf(broken.getOriginalMessage()));
    } finally {
      parser.close();
    }
  }

  /** The parser's complaint in our words. */
  private static String why(JsonParser parser, String message) throws IOException {
    if (message.startsWith("Duplicate")) {
      return "a key twice: " + shown(parser.currentName());
    }
    if (message.indexOf("nesting depth") >= 0) {
      return "nested deeper than " + MOST_DEPTH;
    }
    if (message.startsWith("Number value length")) {
      return "a number of more than " + MOST_DIGITS + " digits";
    }
    if (message.startsWith("Name")) {
      return "a key longer than " + MOST_KEY;
    }
    return "not JSON";
  }

  private static String shown(String key) {
    StringBuffer out = new StringBuffer();
    for (int i = 0; key != null && i < key.length() && out.length() < SHOWN; i++) {
      char c = key.charAt(i);
      if (c != '"' && FlatRecord.isText(c)) {
        out.append(c);
      }
    }
    return out.toString();
  }

  /** Why a record is over a limit with this token, or null. */
  private static String counted(RecordLimits limits, JsonParser parser, JsonToken token) throws IOException {
    if (token == JsonToken.END_OBJECT || token == JsonToken.END_ARRAY) {
      limits.closed();
      return null;
    }
    if (limits.depth() == 1 && token == JsonToken.FIELD_NAME && parser.currentName().equals("resourceSpans")) {
      return TRACES;
    }
    boolean inArray = limits.inArray();
    String reason = token == JsonToken.FIELD_NAME || inArray ? limits.part() : null;
    if (reason == null && token.isNumeric()) {
      reason = limits.number();
    }
    if (reason == null && (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY)) {
      boolean isArray = token == JsonToken.START_ARRAY;
      reason = limits.opened(isArray, isArray && !inArray ? parser.currentName() : null);
    }
    return reason;
  }
}
