package kappa;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF1;

/** A text -> what the groups of a pattern find in it, empty for those that find nothing; null where it is not found. Spark's functions look again for each group. */
public class PatternGroups implements UDF1 {
  private final Pattern pattern;

  public PatternGroups(String pattern) {
    this.pattern = Pattern.compile(pattern);
  }

  @Override
  public Object call(Object text) {
    Matcher found = text == null ? null : pattern.matcher((String) text);
    if (found == null || !found.find()) {
      return null;
    }
    Object[] groups = new Object[found.groupCount()];
    for (int i = 0; i < groups.length; i++) {
      groups[i] = found.group(i + 1) == null ? "" : found.group(i + 1);
    }
    return groups;
  }
}
