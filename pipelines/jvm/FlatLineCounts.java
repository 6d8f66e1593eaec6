package kappa;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.StringTokenizer;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;

/**
 * Records (topic, partition, offset, append time in microseconds, value) -> the flat log lines among them, counted by window and template
 * (`LineCounts`), and every other record as it is.
 *
 * <p>Counts and records have the same columns, and null where they have nothing to say. Only what pipelines/jobs/extract.py would admit is
 * counted here; the rest it looks at itself, and says why.
 */
public class FlatLineCounts implements MapPartitionsFunction {
  private static final String OTHER_LEVEL = "info";

  private final Admission admission;
  private final byte[] masks;
  private final Map levels = new HashMap();

  /** `masks` as in `LogTemplate`; `levels` has lines of a level and its names, with a space between. What is none of these is `info`. */
  public FlatLineCounts(long windowMillis, long latenessMillis, long skewMillis, byte[] masks, String levels) {
    admission = new Admission(windowMillis, latenessMillis, skewMillis);
    this.masks = masks;
    for (StringTokenizer lines = new StringTokenizer(levels, "\n"); lines.hasMoreTokens();) {
      StringTokenizer names = new StringTokenizer(lines.nextToken(), " ");
      String level = names.nextToken();
      while (names.hasMoreTokens()) {
        this.levels.put(names.nextToken(), level);
      }
    }
  }

  @Override
  public Iterator call(Iterator records) {
    return new Counted(this, records);
  }

  /** The level of a given name; null where letters of other alphabets are in it, which only Spark makes small as Spark does. */
  private String level(String given) {
    StringBuilder small = new StringBuilder(given.length());
    for (int i = 0; i < given.length(); i++) {
      char c = given.charAt(i);
      if (c >= 0x80) {
        return null;
      }
      small.append(c >= 'A' && c <= 'Z' ? (char) (c + 'a' - 'A') : c);
    }
    String found = (String) levels.get(small.toString());
    return found == null ? OTHER_LEVEL : found;
  }

  static class Counted extends HeldRows {
    private final FlatLineCounts of;
    private final LineCounts counts;
    private final PlainLine plain = new PlainLine();
    private final FlatLine reader = new FlatLine();

    Counted(FlatLineCounts of, Iterator records) {
      super(records);
      this.of = of;
      counts = new LineCounts(new LogTemplate(of.masks));
    }

    @Override
    protected boolean add(Object row) {
      InputRecord found = (InputRecord) row;
      byte[] record = found.getValue();
      if (plain.read(record)) {
        if (!of.admission.admits(plain.micros, found.appended())) {
          return false;
        }
        counts.add(of.admission.window(plain.micros), plain, of.level(plain.level()));
        return true;
      }
      Row line;
      try {
        line = (Row) reader.parsed(record);
      } catch (java.io.IOException impossible) {
        throw new IllegalStateException(impossible); // its bytes are in memory
      }
      String level = line == null ? null : of.level(line.getString(3));
      if (level == null || !of.admission.admits(line.getLong(0), found.appended())) {
        return false;
      }
      counts.add(of.admission.window(line.getLong(0)), line.getString(1), line.getString(2), level, line.getString(4));
      return true;
    }

    @Override
    protected boolean hasMade() {
      return counts.hasRow();
    }

    @Override
    protected void handOut() {
      counts.handOut();
    }

    @Override
    protected Row made() {
      return InputRecord.behind(counts.row());
    }

    @Override
    protected Row passed(Object record) {
      return ((InputRecord) record).before(LineCounts.PARTS);
    }
  }
}
