package kappa;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.api.java.UDF1;

/**
 * A time as most agents write it -> microseconds since 1970: "2026-01-05T00:00:00[.123456789][Z]", or whole seconds, milliseconds, microseconds or
 * nanoseconds since then, of which seconds may have a fraction. Null for any other form, which pipelines/inputs/fields.py reads by Spark's functions: they take
 * as long as all else that is done with a point.
 */
public class PlainTime implements UDF1 {
  private static final long MILLION = 1000000L;
  private static final long SECONDS = 100000000000L; // below it
  private static final int MOST_DIGITS = 19;
  private static final String MOST = "9223372036854775807"; // for which a long has room
  private static final int LONGEST = 40;

  @Override
  public Object call(Object given) {
    String text = (String) given;
    if (text == null || text.isEmpty() || text.length() > LONGEST) {
      return null;
    }
    int digits = digits(text, 0);
    long found;
    if (digits == 4 && text.length() > 4 && text.charAt(4) == '-') {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      found = FlatRecord.time(bytes, 0, bytes.length);
    } else {
      found = digits == 0 || digits > MOST_DIGITS ? -1 : epoch(text, digits);
    }
    return found < 0 ? null : Long.valueOf(found);
  }

  private static long epoch(String text, int digits) {
    if (digits == MOST_DIGITS && text.compareTo(MOST) > 0) {
      return -1;
    }
    long whole = Long.parseLong(text.substring(0, digits));
    if (digits == text.length()) {
      return whole < SECONDS ? whole * MILLION
          : whole < 1000 * SECONDS ? whole * 1000
          : whole < MILLION * SECONDS ? whole : whole / 1000;
    }
    int fraction = digits(text, digits + 1);
    if (text.charAt(digits) != '.' || whole >= SECONDS || fraction == 0 || fraction > 9 || digits + 1 + fraction != text.length()) {
      return -1;
    }
    long micros = 0;
    for (int i = 0; i < 6; i++) {
      micros = 10 * micros + (i < fraction ? text.charAt(digits + 1 + i) - '0' : 0);
    }
    return whole * MILLION + micros;
  }

  /** How many digits there are from a place on. */
  private static int digits(String text, int from) {
    int at = from;
    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
      at++;
    }
    return at - from;
  }
}
