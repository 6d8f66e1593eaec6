package kappa;

import java.util.Iterator;
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
  private final Admission admission;
  private final byte[] masks;
  private final LineLevel levels;

  /** `masks` as in `LogTemplate`. */
  public FlatLineCounts(long windowMillis, long latenessMillis, long skewMillis, byte[] masks, LineLevel levels) {
    admission = new Admission(windowMillis, latenessMillis, skewMillis);
    this.masks = masks;
    this.levels = levels;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Counted(this, records);
  }

  private String level(PlainLine line) {
    String given = line.level();
    return (String) levels.call(given, given == null ? line.messageText() : null);
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
        counts.add(of.admission.window(plain.micros), plain, of.level(plain));
        return true;
      }
      Row line;
      try {
        line = (Row) reader.parsed(record);
      } catch (java.io.IOException impossible) {
        throw new IllegalStateException(impossible); // its bytes are in memory
      }
      if (line == null || !of.admission.admits(line.getLong(0), found.appended())) {
        return false;
      }
      String level = (String) of.levels.call(line.getString(3), line.getString(4));
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
