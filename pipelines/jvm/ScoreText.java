package kappa;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.api.java.UDF9;

/**
 * (series, window's end, score, value, typical, lower, upper, kind, template), texts in UTF-8 -> a record of the topic "scores", JSON
 * in UTF-8.
 *
 * <p>Numbers have seven significant digits, whole ones all of theirs; what is not known is left out.
 */
public class ScoreText implements UDF9 {
  private static final int DIGITS = 7;
  private static final double LEAST = 1e-5;
  private static final double MOST = 1e15;
  private static final double[] POWERS = new double[19];
  private static final char[] HEX = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  private static final byte[] BEGIN = bytes("{\"record\":\"score\",\"series\":"), END = bytes(",\"window_end\":"), SCORE = bytes(",\"score\":"),
      VALUE = bytes(",\"value\":"), TYPICAL = bytes(",\"typical\":"), LOWER = bytes(",\"lower\":"), UPPER = bytes(",\"upper\":"),
      KIND = bytes(",\"kind\":"), TEMPLATE = bytes(",\"template\":");
  private static final int MOST_NUMBERS = 400; // bytes of a record besides its texts: nine names, the longest of six numbers have 24 bytes
  private static final int MOST_ESCAPED = 6; // bytes of JSON of a byte

  private int records = 0; // tasks may share it: about so many

  static {
    long power = 1;
    for (int i = 0; i < POWERS.length; i++) {
      POWERS[i] = power; // exact: a double holds 5^18, and twos are its exponent
      power *= 10;
    }
  }

  @Override
  public Object call(Object series, Object end, Object score, Object value, Object typical, Object lower, Object upper,
      Object kind, Object template) {
    TaskProgress.rows(++records);
    byte[] text = new byte[MOST_NUMBERS + MOST_ESCAPED * (length(series) + length(kind) + length(template))];
    int at = quote(text, put(text, 0, BEGIN), (byte[]) series);
    at = digits(text, put(text, at, END), ((Long) end).longValue());
    at = member(text, at, SCORE, score);
    at = member(text, at, VALUE, value);
    at = member(text, at, TYPICAL, typical);
    at = member(text, at, LOWER, lower);
    at = member(text, at, UPPER, upper);
    at = kind == null ? at : quote(text, put(text, at, KIND), (byte[]) kind);
    at = template == null ? at : quote(text, put(text, at, TEMPLATE), (byte[]) template);
    text[at++] = '}';
    return Arrays.copyOf(text, at);
  }

  private static int length(Object text) {
    return text == null ? 0 : ((byte[]) text).length;
  }

  private static int put(byte[] text, int at, byte[] more) {
    System.arraycopy(more, 0, text, at, more.length);
    return at + more.length;
  }

  private static int member(byte[] text, int at, byte[] name, Object number) {
    double x = number == null ? Double.NaN : ((Double) number).doubleValue();
    return x - x == 0 ? number(text, put(text, at, name), x) : at; // finite
  }

  /** A finite number, shortened; answers where it ends. */
  private static int number(byte[] text, int at, double x) {
    double size = Math.abs(x);
    if (size == 0) {
      text[at] = '0';
      return at + 1;
    }
    if (size < LEAST || size >= MOST) {
      return put(text, at, bytes(Double.toString(x))); // as 1.0E-6
    }
    int digits = 0; // before the point; negative where zeros follow it
    while (digits < 15 && size >= POWERS[digits]) {
      digits++;
    }
    while (digits > -5 && digits <= 0 && size * POWERS[-digits + 1] < 1) {
      digits--;
    }
    int places = Math.max(0, DIGITS - digits);
    long scaled = Math.round(size * POWERS[places]);
    long unit = (long) POWERS[places];
    if (x < 0 && scaled > 0) {
      text[at++] = '-';
    }
    at = digits(text, at, scaled / unit);
    long rest = scaled % unit;
    if (rest > 0) {
      text[at++] = '.';
      for (unit /= 10; rest < unit; unit /= 10) {
        text[at++] = '0';
      }
      while (rest % 10 == 0) {
        rest /= 10;
      }
      at = digits(text, at, rest);
    }
    return at;
  }

  /** A whole number; answers where it ends. */
  private static int digits(byte[] text, int at, long number) {
    if (number < 0) {
      return put(text, at, bytes(Long.toString(number)));
    }
    int end = at + 1;
    for (long more = number / 10; more > 0; more /= 10) {
      end++;
    }
    for (int i = end - 1; i >= at; i--) {
      text[i] = (byte) ('0' + number % 10);
      number /= 10;
    }
    return end;
  }

  /** A string of JSON; answers where it ends. */
  private static int quote(byte[] text, int at, byte[] value) {
    text[at++] = '"';
    for (int i = 0; i < value.length; i++) {
      byte b = value[i];
      if (b == '"' || b == '\\') {
        text[at++] = '\\';
        text[at++] = b;
      } else if (b >= 0 && b < 0x20) {
        text[at++] = '\\';
        text[at++] = 'u';
        text[at++] = '0';
        text[at++] = '0';
        text[at++] = (byte) HEX[b >> 4];
        text[at++] = (byte) HEX[b & 15];
      } else {
        text[at++] = b;
      }
    }
    text[at++] = '"';
    return at;
  }

  private static byte[] bytes(String word) {
    return word.getBytes(StandardCharsets.US_ASCII);
  }
}
