package kappa;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF1;

/**
 * What names a run of a service -> the service's name, or the path of its log's file -> that name; null where nothing is left. Texts and their names
 * are remembered: there are few, and the patterns take longer than all else that is done with a line.
 */
public class ServiceName implements UDF1 {
  private static final int MOST_KNOWN = 1 << 10;
  private static final String NOTHING = "";

  private final boolean ofFile;
  private final int longest; // characters
  private final Pattern ofContainer; // the file of a container, whose name is one of two groups
  private final Pattern before; // what is left out
  private final Pattern behind; // of which the first group is left
  private final Pattern run; // what is left out
  private final Map known = new ConcurrentHashMap();

  /** For paths of files, or names. */
  public ServiceName(boolean ofFile, int longest, String ofContainer, String before, String behind, String run) {
    this.ofFile = ofFile;
    this.longest = longest;
    this.ofContainer = Pattern.compile(ofContainer);
    this.before = Pattern.compile(before);
    this.behind = Pattern.compile(behind);
    this.run = Pattern.compile(run);
  }

  @Override
  public Object call(Object given) {
    if (given == null) {
      return null;
    }
    String text = (String) given;
    if (text.length() > longest) {
      text = ofFile ? text.substring(text.length() - longest) : text.substring(0, longest);
    }
    String name = (String) known.get(text);
    if (name == null) {
      name = ofFile ? ofFile(text.replace('\\', '/')) : withoutRun(text);
      if (known.size() >= MOST_KNOWN) {
        known.clear();
      }
      known.put(text, name);
    }
    return name.isEmpty() ? null : name;
  }

  private String ofFile(String path) {
    Matcher container = ofContainer.matcher(path);
    if (container.find()) {
      String name = container.group(1) == null ? container.group(2) : container.group(1);
      if (name != null && !name.isEmpty()) {
        return name;
      }
    }
    String last = without('.', path.substring(path.lastIndexOf('/') + 1));
    int dot = last.indexOf('.');
    return withoutRun(dot < 0 ? last : last.substring(0, dot));
  }

  private String withoutRun(String name) {
    String whole = before.matcher(without('/', name)).replaceAll(NOTHING);
    return run.matcher(behind.matcher(whole).replaceAll("$1")).replaceAll(NOTHING);
  }

  /** A text without such characters at its beginning. */
  private static String without(char c, String text) {
    int from = 0;
    while (from < text.length() && text.charAt(from) == c) {
      from++;
    }
    return text.substring(from);
  }
}
