package kappa;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Records (topic, partition, offset, append time in microseconds, value) -> the sums of the flat points among them, a row for
 * each window and series, and every other record as it is.
 *
 * <p>Sums and records have the same columns, and null where they have nothing to say. Sums are of longs, so it does not
 * matter which records they are of: pipelines/extract.py adds them up, with its own of the records that were left. Only what
 * that would admit is summed here; the rest it looks at itself, and says why.
 */
public class FlatSums implements MapPartitionsFunction {
  private static final int COLUMNS = 5;
  private static final int ENOUGH = 100000; // groups that wait in memory

  private final long windowMillis;
  private final long latenessMillis;
  private final long skewMillis;
  private final double[] sumScales;
  private final double[] squareScales;
  private final int offsetBits;
  private final int partitionBits;
  private final long resolution;

  /** `resolution` is in microseconds of event time: see `extract.arrival_order`. */
  public FlatSums(long windowMillis, long latenessMillis, long skewMillis, double[] sumScales, double[] squareScales,
      int offsetBits, int partitionBits, long resolution) {
    this.windowMillis = windowMillis;
    this.latenessMillis = latenessMillis;
    this.skewMillis = skewMillis;
    this.sumScales = sumScales;
    this.squareScales = squareScales;
    this.offsetBits = offsetBits;
    this.partitionBits = partitionBits;
    this.resolution = resolution;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Summed(this, records);
  }

  /** One group: a series in a window. */
  static class Sums {
    long n = 0;
    final long[] sums;
    double min = Double.POSITIVE_INFINITY;
    double max = Double.NEGATIVE_INFINITY;
    double last;
    long order = Long.MIN_VALUE;

    Sums(int count) {
      sums = new long[count];
    }

    /** Add whole multiples of each scale; a double is their exact sum, down to the last scale. */
    void add(int from, double value, double[] scales) {
      double rest = value;
      for (int i = 0; i < scales.length; i++) {
        long whole = (long) (rest / scales[i]);
        sums[from + i] += whole;
        rest -= whole * scales[i];
      }
    }
  }

  /**
   * Groups of a window by series. Names of series that differ in two numbers fall into few of the places of a HashMap, which
   * uses the low bits of their hashes; here the high bits of a product say where.
   */
  static class Window {
    final long end;
    private String[] names = new String[1 << 10];
    private Sums[] sums = new Sums[1 << 10];
    private int bits = 10;
    private int size = 0;

    Window(long end) {
      this.end = end;
    }

    /** The place of a name, or that where it goes. */
    private int place(String name) {
      int at = (name.hashCode() * 0x9E3779B9) >>> (32 - bits);
      while (names[at] != null && !names[at].equals(name)) {
        at = (at + 1) & (names.length - 1);
      }
      return at;
    }

    private void put(int at, String name, Sums group) {
      names[at] = name;
      sums[at] = group;
      if (++size > names.length / 2) {
        String[] before = names;
        Sums[] groups = sums;
        bits++;
        size = 0;
        names = new String[1 << bits];
        sums = new Sums[1 << bits];
        for (int i = 0; i < before.length; i++) {
          if (before[i] != null) {
            put(place(before[i]), before[i], groups[i]);
          }
        }
      }
    }
  }

  /** Reads as far as it must to have a row. */
  static class Summed implements Iterator {
    private final FlatSums of;
    private final Iterator records;
    private final FlatPoint reader = new FlatPoint();
    private final Map windows = new HashMap(); // end, ms -> Window
    private Window window;
    private int groups = 0;
    private Row record;
    private List ready = new ArrayList();
    private int next = 0;

    Summed(FlatSums of, Iterator records) {
      this.of = of;
      this.records = records;
    }

    @Override
    public boolean hasNext() {
      while (record == null && next == ready.size() && records.hasNext()) {
        Row found = (Row) records.next();
        if (!summed(found)) {
          record = found;
        } else if (groups >= ENOUGH) {
          empty();
        }
      }
      if (record == null && next == ready.size() && groups > 0) {
        empty();
      }
      return record != null || next < ready.size();
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      if (record == null) {
        return ready.get(next++);
      }
      Object[] row = new Object[COLUMNS + 7 + of.sumScales.length + of.squareScales.length];
      for (int i = 0; i < COLUMNS; i++) {
        row[i] = record.get(i);
      }
      record = null;
      return RowFactory.create(row);
    }

    /** Add a record to its group; false for one that needs a second look. */
    private boolean summed(Row found) {
      Row point;
      try {
        point = (Row) reader.call(found.get(4));
      } catch (java.io.IOException impossible) {
        throw new IllegalStateException(impossible); // its bytes are in memory
      }
      if (point == null) {
        return false;
      }
      long micros = point.getLong(0), millis = Math.floorDiv(micros, 1000L);
      long behind = Math.floorDiv(found.getLong(3), 1000L) - millis;
      if (behind > of.latenessMillis || -behind > of.skewMillis) {
        return false;
      }
      String series = point.getString(1);
      double value = point.getDouble(2) + 0.0;
      Sums sums = group((Math.floorDiv(millis, of.windowMillis) + 1) * of.windowMillis, series);
      double level = series.startsWith("counter/") ? 0.0 : value;
      sums.n++;
      sums.add(0, level, of.sumScales);
      sums.add(of.sumScales.length, level * level, of.squareScales);
      sums.min = Math.min(sums.min, value);
      sums.max = Math.max(sums.max, value);
      long order = order(micros, found.getLong(2), found.getInt(1));
      if (order > sums.order) {
        sums.order = order;
        sums.last = value;
      }
      return true;
    }

    private long order(long micros, long offset, int partition) {
      long within = Math.floorMod(micros, of.windowMillis * 1000L) / of.resolution;
      return (within << (of.offsetBits + of.partitionBits))
          + ((offset & ((1L << of.offsetBits) - 1)) << of.partitionBits)
          + (partition & ((1L << of.partitionBits) - 1));
    }

    private Sums group(long end, String series) {
      if (window == null || window.end != end) {
        window = (Window) windows.get(Long.valueOf(end));
        if (window == null) {
          window = new Window(end);
          windows.put(Long.valueOf(end), window);
        }
      }
      int at = window.place(series);
      Sums found = window.sums[at];
      if (found == null) {
        found = new Sums(of.sumScales.length + of.squareScales.length);
        window.put(at, series, found);
        groups++;
      }
      return found;
    }

    /** Make rows of all groups. */
    private void empty() {
      ready = new ArrayList(groups);
      next = 0;
      Iterator all = windows.values().iterator();
      while (all.hasNext()) {
        Window each = (Window) all.next();
        for (int i = 0; i < each.names.length; i++) {
          if (each.names[i] != null) {
            ready.add(row(Long.valueOf(each.end), each.names[i], each.sums[i]));
          }
        }
      }
      windows.clear();
      window = null;
      groups = 0;
    }

    private static Row row(Object end, Object series, Sums sums) {
      Object[] row = new Object[COLUMNS + 7 + sums.sums.length];
      int at = COLUMNS;
      row[at++] = end;
      row[at++] = series;
      row[at++] = Long.valueOf(sums.n);
      for (int i = 0; i < sums.sums.length; i++) {
        row[at++] = Long.valueOf(sums.sums[i]);
      }
      row[at++] = Double.valueOf(sums.min);
      row[at++] = Double.valueOf(sums.max);
      row[at++] = Double.valueOf(sums.last);
      row[at++] = Long.valueOf(sums.order);
      return RowFactory.create(row);
    }
  }
}
