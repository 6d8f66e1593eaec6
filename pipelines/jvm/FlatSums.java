package kappa;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
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

  /** Groups of a window by the bytes of their series' names. */
  static class Window {
    final long end;
    private byte[][] names = new byte[1 << 10][];
    private int[] hashes = new int[1 << 10];
    private Sums[] sums = new Sums[1 << 10];
    private int bits = 10;
    private int size = 0;

    Window(long end) {
      this.end = end;
    }

    /** Names that differ in two numbers have hashes of the same low bits; the high bits of a product say where one goes. */
    private int place(int hash) {
      return (hash * 0x9E3779B9) >>> (32 - bits);
    }

    /** The group of a name; null where there is none yet. */
    Sums find(byte[] name, int length, int hash) {
      for (int at = place(hash); names[at] != null; at = (at + 1) & (names.length - 1)) {
        if (hashes[at] == hash && same(names[at], name, length)) {
          return sums[at];
        }
      }
      return null;
    }

    /** Add a group under a name that has none. */
    void put(byte[] name, int hash, Sums group) {
      if (2 * ++size > names.length) {
        grow();
      }
      set(name, hash, group);
    }

    private void set(byte[] name, int hash, Sums group) {
      int at = place(hash);
      while (names[at] != null) {
        at = (at + 1) & (names.length - 1);
      }
      names[at] = name;
      hashes[at] = hash;
      sums[at] = group;
    }

    private void grow() {
      byte[][] known = names;
      int[] knownHashes = hashes;
      Sums[] groups = sums;
      bits++;
      names = new byte[1 << bits][];
      hashes = new int[1 << bits];
      sums = new Sums[1 << bits];
      for (int i = 0; i < known.length; i++) {
        if (known[i] != null) {
          set(known[i], knownHashes[i], groups[i]);
        }
      }
    }

    private static boolean same(byte[] known, byte[] name, int length) {
      if (known.length != length) {
        return false;
      }
      for (int i = length - 1; i >= 0; i--) { // names differ at their ends
        if (known[i] != name[i]) {
          return false;
        }
      }
      return true;
    }
  }

  /** Reads as far as it must to have a row. */
  static class Summed implements Iterator {
    private final FlatSums of;
    private final Iterator records;
    private final PlainPoint plain = new PlainPoint();
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
      byte[] record = (byte[]) found.get(4);
      if (plain.read(record)) {
        return added(found, plain.micros, plain.value, plain.counter, plain.name, plain.length);
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
      String series = point.getString(1);
      byte[] name = series.getBytes(StandardCharsets.UTF_8);
      return added(found, point.getLong(0), point.getDouble(2), series.startsWith("counter/"), name, name.length);
    }

    /** Add a point to its group; false for one that is not plainly admitted. */
    private boolean added(Row found, long micros, double number, boolean counter, byte[] name, int length) {
      long millis = Math.floorDiv(micros, 1000L);
      long behind = Math.floorDiv(found.getLong(3), 1000L) - millis;
      if (behind > of.latenessMillis || -behind > of.skewMillis) {
        return false;
      }
      double value = number + 0.0;
      Sums sums = group((Math.floorDiv(millis, of.windowMillis) + 1) * of.windowMillis, name, length);
      double level = counter ? 0.0 : value;
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

    private Sums group(long end, byte[] name, int length) {
      if (window == null || window.end != end) {
        window = (Window) windows.get(Long.valueOf(end));
        if (window == null) {
          window = new Window(end);
          windows.put(Long.valueOf(end), window);
        }
      }
      int hash = 0;
      for (int i = 0; i < length; i++) {
        hash = 31 * hash + name[i];
      }
      Sums found = window.find(name, length, hash);
      if (found == null) {
        found = new Sums(of.sumScales.length + of.squareScales.length);
        window.put(Arrays.copyOf(name, length), hash, found);
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
            String series = new String(each.names[i], StandardCharsets.UTF_8);
            ready.add(row(Long.valueOf(each.end), series, each.sums[i]));
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
