package kappa;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.api.java.UDF9;

/**
 * (series, window's end, score, value, typical, lower, upper, kind, template) -> a record of the topic "scores", JSON in UTF-8.
 *
 * <p>Numbers have seven significant digits, whole ones all of theirs; what is not known is left out.
 */
public class ScoreText implements UDF9 {
  private static final int DIGITS = 7;
  private static final double LEAST = 1e-5;
  private static final double MOST = 1e15;
  private static final double[] POWERS = new double[19];
  private static final char[] HEX = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

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
    StringBuilder text = new StringBuilder(256).append("{\"record\":\"score\",\"series\":");
    quote(text, (String) series);
    text.append(",\"window_end\":").append(((Long) end).longValue());
    member(text, "score", score);
    member(text, "value", value);
    member(text, "typical", typical);
    member(text, "lower", lower);
    member(text, "upper", upper);
    member(text, "kind", (String) kind);
    member(text, "template", (String) template);
    return text.append('}').toString().getBytes(StandardCharsets.UTF_8);
  }

  private static void member(StringBuilder text, String name, String value) {
    if (value != null) {
      quote(text.append(",\"").append(name).append("\":"), value);
    }
  }

  private static void member(StringBuilder text, String name, Object number) {
    if (number != null) {
      double x = ((Double) number).doubleValue();
      if (x - x == 0) { // finite
        text.append(",\"").append(name).append("\":");
        number(text, x);
      }
    }
  }

  /** A finite number, shortened. */
  static void number(StringBuilder text, double x) {
    double size = Math.abs(x);
    if (size == 0) {
      text.append('0');
      return;
    }
    if (size < LEAST || size >= MOST) {
      text.append(x); // as 1.0E-6
      return;
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
      text.append('-');
    }
    text.append(scaled / unit);
    long rest = scaled % unit;
    if (rest > 0) {
      text.append('.');
      for (unit /= 10; rest < unit; unit /= 10) {
        text.append('0');
      }
      while (rest % 10 == 0) {
        rest /= 10;
      }
      text.append(rest);
    }
  }

  /** A string of JSON. */
  static void quote(StringBuilder text, String value) {
    text.append('"');
    for (int i = 0; i < value.length(); i++) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        text.append('\\').append(c);
      } else if (c < 0x20) {
        text.append("\\u00").append(HEX[c >> 4]).append(HEX[c & 15]);
      } else {
        text.append(c);
      }
    }
    text.append('"');
  }
}
