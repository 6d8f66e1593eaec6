package kappa;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.StringTokenizer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF2;

/** A level as it was given, or null, and a message -> the level of the line, one of the product's. It is `models.records.log_levels` in Spark's JVM. */
public class LineLevel implements UDF2 {
  private static final String UNKNOWN = "info";

  private final Map levels; // by their names in small letters
  private final Pattern named;
  private final Pattern word;
  private final Pattern inJson;
  private final String[] likely;
  private final boolean[] begins = new boolean[128]; // capitals with which one of these begins
  private final Pattern beforeDigits;
  private final int within;
  private final int withinJson;

  /**
   * `levels` as `byName` reads them. `named` finds a level in so many characters of a message, `word` its name in what was found, `inJson` as a group
   * the name in a message that is a JSON object. Without one of the words `likely`, which are in capitals, and without `beforeDigits` nothing is found.
   */
  public LineLevel(
      String levels, String named, String word, String inJson, String likely, String beforeDigits, int within, int withinJson) {
    this.levels = byName(levels);
    this.named = Pattern.compile(named);
    this.word = Pattern.compile(word);
    this.inJson = Pattern.compile(inJson);
    this.likely = likely.split(" ");
    for (int i = 0; i < this.likely.length; i++) {
      begins[this.likely[i].charAt(0)] = true;
    }
    this.beforeDigits = Pattern.compile(beforeDigits);
    this.within = within;
    this.withinJson = withinJson;
  }

  /** Lines of a level and its names, with a space between -> levels by their names. */
  static Map byName(String levels) {
    Map found = new HashMap();
    for (StringTokenizer lines = new StringTokenizer(levels, "\n"); lines.hasMoreTokens();) {
      StringTokenizer names = new StringTokenizer(lines.nextToken(), " ");
      String level = names.nextToken();
      while (names.hasMoreTokens()) {
        found.put(names.nextToken(), level);
      }
    }
    return found;
  }

  @Override
  public Object call(Object given, Object message) {
    if (given != null) {
      return level(levels, (String) given);
    }
    return message == null ? UNKNOWN : in((String) message);
  }

  /** The level of a given name, with spaces around it or not: loggers pad it. Info where it is unknown. */
  static String level(Map levels, String given) {
    String found = (String) levels.get(given.trim().toLowerCase(Locale.ROOT));
    return found == null ? UNKNOWN : found;
  }

  /** The level that the beginning of a message names. */
  private String in(String message) {
    if (message.startsWith("{")) {
      Matcher member = inJson.matcher(RecordText.cut(message, withinJson));
      return member.find() ? level(levels, member.group(1)) : UNKNOWN;
    }
    String text = RecordText.cut(message, within);
    if (!isLikely(text)) {
      return UNKNOWN;
    }
    Matcher found = named.matcher(text);
    Matcher last = found.find() ? word.matcher(found.group()) : null;
    return last != null && last.find() ? level(levels, last.group()) : UNKNOWN;
  }

  /** Most lines name no level: to find that out with the pattern would take half of the time that a line takes. */
  private boolean isLikely(String text) {
    for (int at = 0; at < text.length(); at++) {
      int c = text.charAt(at) & ~0x20; // a letter's capital
      if (c < begins.length && begins[c]) {
        for (int i = 0; i < likely.length; i++) {
          if (text.regionMatches(true, at, likely[i], 0, likely[i].length())) {
            return true;
          }
        }
      }
    }
    return beforeDigits.matcher(text).find();
  }
}
