package kappa;

import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;

/**
 * Records (topic, partition, offset, append time in microseconds, value) -> the sums of the flat points among them, as rows of window,
 * bucket and block (`WindowSums`), and every other record as it is.
 *
 * <p>Sums and records have the same columns, and null where they have nothing to say. Only what pipelines/jobs/extract.py would admit is
 * summed here; the rest it looks at itself, and says why.
 */
public class FlatSums implements MapPartitionsFunction {
  private final long windowMillis;
  private final Admission admission;
  private final int most;
  private final long capacity;

  /** What is needed of a host and of all hosts of a bucket, as in `HostShares`. */
  public FlatSums(long windowMillis, long latenessMillis, long skewMillis, int most, long capacity) {
    this.windowMillis = windowMillis;
    this.admission = new Admission(windowMillis, latenessMillis, skewMillis);
    this.most = most;
    this.capacity = capacity;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Summed(this, records);
  }

  static class Summed extends SummedRows {
    private final FlatSums of;
    private final PlainPoint plain = new PlainPoint();
    private final FlatPoint reader = new FlatPoint();

    Summed(FlatSums of, Iterator records) {
      super(new WindowSums(of.windowMillis, of.most, of.capacity), records);
      this.of = of;
    }

    @Override
    protected boolean add(Object row) {
      InputRecord found = (InputRecord) row;
      byte[] record = found.getValue();
      if (plain.read(record)) {
        return added(found, plain.micros, plain.value, plain.name, plain.length);
      }
      Row point;
      try {
        point = (Row) reader.parsed(record);
      } catch (java.io.IOException impossible) {
        throw new IllegalStateException(impossible); // its bytes are in memory
      }
      if (point == null) {
        return false;
      }
      byte[] name = point.getString(1).getBytes(StandardCharsets.UTF_8);
      return added(found, point.getLong(0), point.getDouble(2), name, name.length);
    }

    /** Add a point; false for one that is not plainly admitted. */
    private boolean added(InputRecord found, long micros, double value, byte[] name, int length) {
      if (!of.admission.admits(micros, found.appended())) {
        return false;
      }
      sums.add(micros, name, length, value, found.getPartition(), found.getOffset());
      return true;
    }

    @Override
    protected Row passed(Object record) {
      return ((InputRecord) record).before(WindowSums.PARTS);
    }

    @Override
    protected Row of(Object[] block) {
      return InputRecord.behind(block);
    }
  }
}
