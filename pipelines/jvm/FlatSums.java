package kappa;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * Records (topic, partition, offset, append time in microseconds, value) -> the sums of the flat points among them, a row for
 * each window and series, and every other record as it is.
 *
 * <p>Sums and records have the same columns, and null where they have nothing to say. Sums are of longs, so it does not
 * matter which records they are of: pipelines/jobs/extract.py adds them up, with its own of the records that were left. Only what
 * that would admit is summed here; the rest it looks at itself, and says why.
 *
 * <p>Of a host with more series of a kind in a window than `most`, those with the least hashes are handed out: the others would be
 * left out later, see pipelines/surplus.py.
 */
public class FlatSums implements MapPartitionsFunction {
  private static final int COLUMNS = 5;
  private static final long ENOUGH = 32L << 20; // bytes of the arrays of all windows that wait in memory
  private static final long SEED = 42; // of Spark's xxhash64
  private static final long SECRET = new SecureRandom().nextLong(); // nobody can choose names that share a place

  private final long windowMillis;
  private final long latenessMillis;
  private final long skewMillis;
  private final double[] sumScales;
  private final double[] squareScales;
  private final int offsetBits;
  private final int partitionBits;
  private final long resolution;
  private final int most;

  /** `resolution` is in microseconds of event time: see `extract.arrival_order`. */
  public FlatSums(long windowMillis, long latenessMillis, long skewMillis, double[] sumScales, double[] squareScales,
      int offsetBits, int partitionBits, long resolution, int most) {
    this.windowMillis = windowMillis;
    this.latenessMillis = latenessMillis;
    this.skewMillis = skewMillis;
    this.sumScales = sumScales;
    this.squareScales = squareScales;
    this.offsetBits = offsetBits;
    this.partitionBits = partitionBits;
    this.resolution = resolution;
    this.most = most;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Summed(this, records);
  }

  /**
   * The sums of a window: a stretch of `numbers` for each series, found by the bytes of its name. Series come in any order and
   * are many more than a processor keeps at hand, so what belongs together lies together.
   */
  static class Window {
    private static final int NAME = 0, COUNT = 1, ORDER = 2, LEAST = 3, MOST = 4, LAST = 5, SUMS = 6;
    private static final int FIRST_BITS = 4, FIRST = 1 << FIRST_BITS; // a fleet that catches up has thousands of windows

    final long end;
    int size = 0;
    private long bytes = 0;
    private final int stride;
    private long[] numbers; // doubles by their bits
    private byte[] names = new byte[64 * FIRST];
    private int[] ends = new int[FIRST]; // of names
    private int[] places = new int[2 * FIRST]; // 1 + the number of a series
    private int bits = FIRST_BITS + 1;

    Window(long end, int sums) {
      this.end = end;
      stride = SUMS + sums;
      numbers = new long[FIRST * stride];
    }

    /** By how many bytes its arrays are larger than when this was last asked. */
    long grown() {
      long before = bytes;
      bytes = 8L * numbers.length + names.length + 4L * (ends.length + places.length);
      return bytes - before;
    }

    /** Where the numbers of a series begin; it is added if it is new. */
    int find(byte[] name, int length) {
      int hash = (int) XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET, length, SECRET);
      int at = place(hash);
      while (places[at] != 0) {
        int found = (places[at] - 1) * stride;
        if (numbers[found + NAME] == hash && same(places[at] - 1, name, length)) {
          return found;
        }
        at = (at + 1) & (places.length - 1);
      }
      return add(name, length, hash, at);
    }

    /** Add a point to the sums that begin at a place. `level` is what is summed: nothing, of a counter. */
    void add(int at, double value, double level, double[] sumScales, double[] squareScales, long order) {
      numbers[at + COUNT]++;
      whole(at + SUMS, level, sumScales);
      whole(at + SUMS + sumScales.length, level * level, squareScales);
      numbers[at + LEAST] = bits(Math.min(Double.longBitsToDouble(numbers[at + LEAST]), value));
      numbers[at + MOST] = bits(Math.max(Double.longBitsToDouble(numbers[at + MOST]), value));
      if (order > numbers[at + ORDER]) {
        numbers[at + ORDER] = order;
        numbers[at + LAST] = bits(value);
      }
    }

    /** Whole multiples of each scale; a double is their exact sum, down to the last scale. */
    private void whole(int from, double value, double[] scales) {
      double rest = value;
      for (int i = 0; i < scales.length; i++) {
        long whole = (long) (rest / scales[i]);
        numbers[from + i] += whole;
        rest -= whole * scales[i];
      }
    }

    /** The series without which each host has `most` of a kind at most: those with larger hashes than as many others. */
    BitSet surplus(int most) {
      BitSet found = new BitSet();
      if (size <= most) {
        return found;
      }
      Map counts = new HashMap(); // KIND/HOST -> int[1]
      int[][] own = new int[size][]; // the count of each series' host
      for (int series = 0; series < size; series++) {
        String owner = owner(series);
        int[] count = (int[]) counts.get(owner);
        if (count == null) {
          count = new int[1];
          counts.put(owner, count);
        }
        count[0]++;
        own[series] = count;
      }
      Iterator owners = counts.values().iterator();
      while (owners.hasNext()) {
        int[] count = (int[]) owners.next();
        if (count[0] > most) {
          addSurplus(found, own, count, most);
        }
      }
      return found;
    }

    private void addSurplus(BitSet found, int[][] own, int[] count, int most) {
      long[] hashes = new long[count[0]];
      int n = 0;
      for (int series = 0; series < size; series++) {
        if (own[series] == count) {
          hashes[n++] = hash(series);
        }
      }
      Arrays.sort(hashes);
      long highest = hashes[most - 1];
      for (int series = 0; series < size; series++) {
        if (own[series] == count && hash(series) > highest) {
          found.set(series);
        }
      }
    }

    private long hash(int series) {
      int begin = begin(series);
      return XXH64.hashUnsafeBytes(names, Platform.BYTE_ARRAY_OFFSET + begin, ends[series] - begin, SEED);
    }

    /** The name of a series up to its second slash. */
    private String owner(int series) {
      int begin = begin(series), at = begin, slashes = 0;
      while (at < ends[series] && slashes < 2) {
        slashes += names[at++] == '/' ? 1 : 0;
      }
      return new String(names, begin, at - begin, StandardCharsets.ISO_8859_1);
    }

    /** The row of a series. */
    Row row(int series) {
      Object[] row = new Object[COLUMNS + stride + 1];
      int at = COLUMNS, from = series * stride, begin = begin(series);
      row[at++] = Long.valueOf(end);
      row[at++] = new String(names, begin, ends[series] - begin, StandardCharsets.UTF_8);
      row[at++] = Long.valueOf(numbers[from + COUNT]);
      for (int i = from + SUMS; i < from + stride; i++) {
        row[at++] = Long.valueOf(numbers[i]);
      }
      row[at++] = Double.valueOf(Double.longBitsToDouble(numbers[from + LEAST]));
      row[at++] = Double.valueOf(Double.longBitsToDouble(numbers[from + MOST]));
      row[at++] = Double.valueOf(Double.longBitsToDouble(numbers[from + LAST]));
      row[at] = Long.valueOf(numbers[from + ORDER]);
      return RowFactory.create(row);
    }

    private static long bits(double value) {
      return Double.doubleToRawLongBits(value);
    }

    private int begin(int series) {
      return series == 0 ? 0 : ends[series - 1];
    }

    /** Names that differ in two numbers have hashes of the same low bits; the high bits of a product say where one goes. */
    private int place(int hash) {
      return (hash * 0x9E3779B9) >>> (32 - bits);
    }

    private boolean same(int series, byte[] name, int length) {
      int begin = begin(series);
      if (ends[series] - begin != length) {
        return false;
      }
      for (int i = length - 1; i >= 0; i--) { // names differ at their ends
        if (names[begin + i] != name[i]) {
          return false;
        }
      }
      return true;
    }

    private int add(byte[] name, int length, int hash, int place) {
      int begin = begin(size), at = size * stride;
      if (begin + length > names.length) {
        names = Arrays.copyOf(names, 2 * (begin + length));
      }
      if (size == ends.length) {
        ends = Arrays.copyOf(ends, 2 * size);
        numbers = Arrays.copyOf(numbers, 2 * size * stride);
      }
      System.arraycopy(name, 0, names, begin, length);
      ends[size] = begin + length;
      numbers[at + NAME] = hash;
      numbers[at + ORDER] = Long.MIN_VALUE;
      numbers[at + LEAST] = bits(Double.POSITIVE_INFINITY);
      numbers[at + MOST] = bits(Double.NEGATIVE_INFINITY);
      places[place] = ++size;
      if (2 * size > places.length) {
        placeAgain();
      }
      return at;
    }

    private void placeAgain() {
      places = new int[1 << ++bits];
      for (int series = 0; series < size; series++) {
        int at = place((int) numbers[series * stride + NAME]);
        while (places[at] != 0) {
          at = (at + 1) & (places.length - 1);
        }
        places[at] = series + 1;
      }
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
    private long bytes = 0; // of all windows
    private Row record;
    private ArrayDeque full = new ArrayDeque(); // windows that are handed out
    private Window given; // the one of them whose rows are
    private BitSet surplus; // of its series
    private int next = 0; // of its series

    Summed(FlatSums of, Iterator records) {
      this.of = of;
      this.records = records;
    }

    @Override
    public boolean hasNext() {
      while (record == null && !hasRow() && records.hasNext()) {
        Row found = (Row) records.next();
        if (!summed(found)) {
          record = found;
        } else if (bytes >= ENOUGH) {
          handOut();
        }
      }
      if (record == null && !hasRow() && !windows.isEmpty()) {
        handOut();
      }
      return record != null || hasRow();
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      if (record == null) {
        Row found = given.row(next);
        next = Math.min(surplus.nextClearBit(next + 1), given.size);
        return found;
      }
      Object[] row = new Object[COLUMNS + 7 + of.sumScales.length + of.squareScales.length];
      for (int i = 0; i < COLUMNS; i++) {
        row[i] = record.get(i);
      }
      record = null;
      return RowFactory.create(row);
    }

    /** Whether a group is left of the windows that are handed out; goes on to the next of them where one has no more. */
    private boolean hasRow() {
      while ((given == null || next == given.size) && !full.isEmpty()) {
        given = (Window) full.poll();
        surplus = given.surplus(of.most);
        next = surplus.nextClearBit(0); // before the end: some of each host are kept
      }
      return given != null && next < given.size;
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
      Window sums = window((Math.floorDiv(millis, of.windowMillis) + 1) * of.windowMillis);
      int before = sums.size, at = sums.find(name, length);
      if (sums.size > before) {
        bytes += sums.grown();
      }
      long order = order(micros, found.getLong(2), found.getInt(1));
      sums.add(at, value, counter ? 0.0 : value, of.sumScales, of.squareScales, order);
      return true;
    }

    private long order(long micros, long offset, int partition) {
      long within = Math.floorMod(micros, of.windowMillis * 1000L) / of.resolution;
      return (within << (of.offsetBits + of.partitionBits))
          + ((offset & ((1L << of.offsetBits) - 1)) << of.partitionBits)
          + (partition & ((1L << of.partitionBits) - 1));
    }

    private Window window(long end) {
      if (window == null || window.end != end) {
        window = (Window) windows.get(Long.valueOf(end));
        if (window == null) {
          window = new Window(end, of.sumScales.length + of.squareScales.length);
          bytes += window.grown();
          windows.put(Long.valueOf(end), window);
        }
      }
      return window;
    }

    /** Hand out all groups. */
    private void handOut() {
      full = new ArrayDeque(windows.values());
      given = null;
      windows.clear();
      window = null;
      bytes = 0;
    }
  }
}
