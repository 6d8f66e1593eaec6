package kappa;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;

/**
 * What the two readers of flat canonical records share: the way from bytes to a row, and strings, times and names that are
 * plainly good.
 *
 * <p>Every method answers "null" (or a negative number) for anything that needs a second look; Spark's own functions take
 * that look, and say why where it cannot be used. So nothing here may accept what pipelines/inputs/fields.py refuses, nor
 * read it otherwise.
 */
abstract class FlatRecord implements UDF1 {
  static final JsonFactory JSON = RecordText.json();
  static final int MAX_NAME = 256;
  static final int MINUTE = 16; // characters of a time up to its minute
  private static final long LAST_YEAR = 2199;
  private static final long MILLION = 1000000L;
  private static final int[] DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

  /** What a parser of JSON makes of a record: the readers look for its usual form first. */
  final Object parsed(Object record) throws IOException {
    JsonParser parser = null;
    try {
      parser = open((byte[]) record);
      return parser == null ? null : read(parser);
    } catch (JsonProcessingException notJson) {
      return null; // Spark's functions say why
    } finally {
      if (parser != null) {
        parser.close();
      }
    }
  }

  /** The row of a record, from behind its opening brace; null for what is not plainly good. */
  abstract Row read(JsonParser parser) throws IOException;

  /** A parser that stands behind the opening brace, or null for what is not a JSON object in plain UTF-8. */
  static JsonParser open(byte[] record) throws IOException {
    return open(record, RecordText.MOST_FLAT);
  }

  /** The same of at most so many bytes. */
  static JsonParser open(byte[] record, int most) throws IOException {
    if (record == null || record.length < 2 || record.length > most || record[0] != '{' || record[1] == 0) {
      return null; // a zero would make Jackson take it for UTF-16
    }
    // Jackson takes overlong forms and surrogates for good
    if (!RecordText.isAscii(record) && new String(record, StandardCharsets.UTF_8).indexOf('\ufffd') >= 0) {
      return null;
    }
    JsonParser parser = JSON.createParser(record);
    parser.nextToken();
    return parser;
  }

  /** Whether a member says that a record may be of another form, which is to be looked at first. */
  static boolean otherForm(String member) {
    return member.equals("record") || member.equals("resourceMetrics") || member.equals("resourceLogs")
        || member.equals("resourceSpans") || member.equals("metrics") || member.equals("name")
        || member.equals("collectd");
  }

  /** Whether the object that was read is all there is. */
  static boolean ends(JsonParser parser) throws IOException {
    return parser.currentToken() == JsonToken.END_OBJECT && parser.nextToken() == null;
  }

  /** Whether a text can be (part of) a name: no control characters, nothing that stands for bytes that were not text. */
  static boolean clean(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (!isText(text.charAt(i))) {
        return false;
      }
    }
    return true;
  }

  /** Whether it is a whole character that can be shown. */
  static boolean isText(char c) {
    return c >= 0x20 && (c < 0x7f || c > 0x9f) && !Character.isSurrogate(c) && c != '\ufffd';
  }

  /** Whether a text is a name of 1 to MAX_NAME characters. */
  static boolean isName(String text) {
    return text != null && text.length() > 0 && text.length() <= MAX_NAME && clean(text);
  }

  /** A part of a series' name, as models.core.series.quote writes it. */
  static void quote(StringBuilder name, String part) {
    if (part.indexOf('/') < 0 && part.indexOf('%') < 0) {
      name.append(part);
    } else {
      name.append(part.replace("%", "%25").replace("/", "%2F"));
    }
  }

  /**
   * Microseconds since 1970 of a string, "2026-01-05T00:00:00[.123456789][Z]", in UTC; -1 for any other form and
   * for years outside 1970..2199. Digits after the sixth of a fraction are cut off, as Spark does.
   */
  static long time(byte[] text, int at, int length) {
    long minute = length < MINUTE ? -1 : minute(text, at), rest = rest(text, at, length);
    return minute < 0 || rest < 0 ? -1 : minute + rest;
  }

  /** The same of its first `MINUTE` characters, which are there. */
  static long minute(byte[] text, int at) {
    if (text[at + 4] != '-' || text[at + 7] != '-' || text[at + 10] != 'T' || text[at + 13] != ':') {
      return -1;
    }
    long year = number(text, at, 4), month = number(text, at + 5, 2), day = number(text, at + 8, 2);
    long hour = number(text, at + 11, 2), minute = number(text, at + 14, 2);
    if (year < 1970 || year > LAST_YEAR || month < 1 || month > 12 || day < 1 || day > days(year, (int) month)
        || hour < 0 || hour > 23 || minute < 0 || minute > 59) {
      return -1;
    }
    return ((epochDay(year, month, day) * 24 + hour) * 60 + minute) * 60 * MILLION;
  }

  /** Microseconds since the minute, of what comes behind it. */
  static long rest(byte[] text, int at, int length) {
    if (length > 0 && text[at + length - 1] == 'Z') {
      length--;
    }
    if (length < 19 || length == 20 || length > 29 || text[at + 16] != ':' || (length > 20 && text[at + 19] != '.')) {
      return -1;
    }
    long micros = 0;
    for (int i = 20; i < length; i++) {
      int d = digit(text[at + i]);
      if (d < 0) {
        return -1;
      }
      micros = i < 26 ? 10 * micros + d : micros;
    }
    for (int i = Math.max(length, 20); i < 26; i++) {
      micros *= 10;
    }
    long second = number(text, at + 17, 2);
    return second < 0 || second > 59 ? -1 : second * MILLION + micros;
  }

  /** The same of the parser's string. */
  static long time(JsonParser parser) throws IOException {
    byte[] text = parser.getText().getBytes(StandardCharsets.UTF_8);
    return time(text, 0, text.length);
  }

  private static int digit(byte c) {
    return c >= '0' && c <= '9' ? c - '0' : -1;
  }

  private static long number(byte[] text, int at, int digits) {
    long found = 0;
    for (int i = at; i < at + digits; i++) {
      int d = digit(text[i]);
      if (d < 0) {
        return -1;
      }
      found = 10 * found + d;
    }
    return found;
  }

  private static boolean leap(long year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  }

  private static int days(long year, int month) {
    return month == 2 && leap(year) ? 29 : DAYS[month - 1];
  }

  /** Days since 1970-01-01 in the Gregorian calendar; years from 1970 on. */
  private static long epochDay(long year, long month, long day) {
    long before = year - 1;
    long found = 365 * (year - 1970) + (before / 4 - before / 100 + before / 400) - 477 + day - 1;
    for (int m = 1; m < month; m++) {
      found += days(year, m);
    }
    return found;
  }
}
