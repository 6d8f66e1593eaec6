package kappa;

import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Rows of window (end, ms), bucket, block, refused, event time in microseconds, series, value, partition and offset -> the first four.
 *
 * <p>A row of a series is a point, and is summed; what was refused and what has been summed already is passed on.
 */
public class PointSums implements MapPartitionsFunction {
  private static final int TIME = 4;
  private static final int SERIES = 5;
  private static final int VALUE = 6;
  private static final int PARTITION = 7;
  private static final int OFFSET = 8;

  private final long windowMillis;
  private final int most;
  private final long capacity;

  /** What is needed of a host and of all hosts of a bucket, as in `HostShares`. */
  public PointSums(long windowMillis, int most, long capacity) {
    this.windowMillis = windowMillis;
    this.most = most;
    this.capacity = capacity;
  }

  @Override
  public Iterator call(Iterator rows) {
    return new Summed(new WindowSums(windowMillis, most, capacity), rows);
  }

  static class Summed extends SummedRows {
    Summed(WindowSums sums, Iterator rows) {
      super(sums, rows);
    }

    @Override
    protected boolean add(Object found) {
      Row row = (Row) found;
      if (row.isNullAt(SERIES)) {
        return false;
      }
      byte[] name = row.getString(SERIES).getBytes(StandardCharsets.UTF_8);
      double value = row.isNullAt(VALUE) ? 0.0 : row.getDouble(VALUE); // a heartbeat has none
      sums.add(row.getLong(TIME), name, name.length, value, row.getInt(PARTITION), row.getLong(OFFSET));
      return true;
    }

    @Override
    protected Row passed(Object found) {
      Row row = (Row) found;
      return RowFactory.create(new Object[] {row.get(0), row.get(1), row.get(2), row.get(3)});
    }

    @Override
    protected Row of(Object[] block) {
      return RowFactory.create(new Object[] {block[0], block[1], block[2], null});
    }
  }
}
