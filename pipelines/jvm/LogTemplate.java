package kappa;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF1;

/**
 * A log message -> its template: patterns that are replaced by tokens, one after the other.
 *
 * <p>A pattern is left out where the text lacks what every match of it holds. Lengths are in code points, as Spark and Python count.
 */
public class LogTemplate implements UDF1 {
  private final String[] patterns;
  private final String[] tokens;
  private final String[] needs;
  private final int mostRead;
  private final int mostWritten;
  private transient volatile Mask[] masks;

  /** Of each pattern its token, and sets of ASCII characters, a line each, of each of which a match holds one. */
  public LogTemplate(List patterns, List tokens, List needs, int mostRead, int mostWritten) {
    this.patterns = (String[]) patterns.toArray(new String[0]);
    this.tokens = (String[]) tokens.toArray(new String[0]);
    this.needs = (String[]) needs.toArray(new String[0]);
    this.mostRead = mostRead;
    this.mostWritten = mostWritten;
  }

  @Override
  public Object call(Object message) {
    if (message == null) {
      return null;
    }
    Mask[] all = masks;
    if (all == null) {
      all = compiled();
      masks = all;
    }
    String text = first((String) message, mostRead);
    long[] there = characters(text);
    for (int i = 0; i < all.length; i++) {
      if (all[i].mayMatch(there)) {
        String replaced = all[i].replaced(text);
        if (replaced != text) {
          text = replaced;
          there = characters(text);
        }
      }
    }
    return trimmed(first(text, mostWritten));
  }

  private Mask[] compiled() {
    Mask[] out = new Mask[patterns.length];
    for (int i = 0; i < out.length; i++) {
      out[i] = new Mask(patterns[i], tokens[i], needs[i]);
    }
    return out;
  }

  private static String first(String text, int most) {
    return text.length() <= most || text.codePointCount(0, text.length()) <= most
        ? text
        : text.substring(0, text.offsetByCodePoints(0, most));
  }

  /** Without blanks around it; only blanks. */
  private static String trimmed(String text) {
    int begin = 0;
    int end = text.length();
    while (begin < end && text.charAt(begin) == ' ') {
      begin++;
    }
    while (end > begin && text.charAt(end - 1) == ' ') {
      end--;
    }
    return text.substring(begin, end);
  }

  /** Which of the 128 characters of ASCII are in a text, a bit each. */
  static long[] characters(String text) {
    long low = 0;
    long high = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c < 64) {
        low |= 1L << c;
      } else if (c < 128) {
        high |= 1L << (c - 64);
      }
    }
    return new long[] {low, high};
  }

  private static final class Mask {
    private final Pattern pattern;
    private final String token;
    private final long[][] needs;

    Mask(String pattern, String token, String needs) {
      this.pattern = Pattern.compile(pattern);
      this.token = token;
      String[] sets = needs.isEmpty() ? new String[0] : needs.split("\n");
      this.needs = new long[sets.length][];
      for (int i = 0; i < sets.length; i++) {
        this.needs[i] = characters(sets[i]);
      }
    }

    boolean mayMatch(long[] there) {
      for (int i = 0; i < needs.length; i++) {
        if ((needs[i][0] & there[0]) == 0 && (needs[i][1] & there[1]) == 0) {
          return false;
        }
      }
      return true;
    }

    /** The very same text where nothing matches. */
    String replaced(String text) {
      Matcher matcher = pattern.matcher(text);
      if (!matcher.find()) {
        return text;
      }
      StringBuffer out = new StringBuffer(text.length() + 16);
      do {
        matcher.appendReplacement(out, token);
      } while (matcher.find());
      return matcher.appendTail(out).toString();
    }
  }
}
