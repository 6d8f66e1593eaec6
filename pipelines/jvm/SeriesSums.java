package kappa;

import java.security.SecureRandom;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * The sums of a window: a stretch of `numbers` for each series, found by the bytes of its name. Series come in any order and are
 * many more than a processor keeps at hand, so what belongs together lies together.
 */
final class SeriesSums {
  static final int BUCKETS = 1024; // of hosts: what is summed of each goes on by itself
  private static final long SECRET = new SecureRandom().nextLong(); // nobody can choose names that share a place
  private static final int STRIDE = 1 + PointNumbers.SIZE; // the hash by which it is found, and its numbers
  private static final int FIRST_BITS = 4;
  private static final int FIRST = 1 << FIRST_BITS; // a fleet that catches up has thousands of windows
  private static final int INDEX_BITS = 24;
  private static final long INDEX = (1L << INDEX_BITS) - 1;

  final long end;
  private int size = 0;
  private long bytes = 0;
  private long[] numbers = new long[FIRST * STRIDE];
  private byte[] names = new byte[64 * FIRST];
  private int[] ends = new int[FIRST]; // of names
  private int[] places = new int[2 * FIRST]; // 1 + the number of a series
  private int bits = FIRST_BITS + 1;

  /** `end` of the window, ms. */
  SeriesSums(long end) {
    this.end = end;
  }

  /** By how many bytes its arrays are larger than when this was last asked. */
  long grown() {
    long before = bytes;
    bytes = 8L * numbers.length + names.length + 4L * (ends.length + places.length);
    return bytes - before;
  }

  /** Add a point; answers whether its series is new. */
  boolean add(byte[] name, int length, double value, long order) {
    int before = size;
    int at = find(name, length); // may make the arrays larger
    PointNumbers.add(numbers, at, value, PointNumbers.isCounter(name, 0, length), order);
    return size > before;
  }

  /** Where the numbers of a series begin; it is added if it is new. */
  private int find(byte[] name, int length) {
    int hash = (int) XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET, length, SECRET);
    int at = place(hash);
    while (places[at] != 0) {
      int found = (places[at] - 1) * STRIDE;
      if (numbers[found] == hash && same(places[at] - 1, name, length)) {
        return found + 1;
      }
      at = (at + 1) & (places.length - 1);
    }
    return add(name, length, hash, at) + 1;
  }

  private int begin(int series) {
    return series == 0 ? 0 : ends[series - 1];
  }

  private int length(int series) {
    return ends[series] - begin(series);
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
    int begin = begin(size);
    int at = size * STRIDE;
    if (begin + length > names.length) {
      names = Arrays.copyOf(names, 2 * (begin + length));
    }
    if (size == ends.length) {
      ends = Arrays.copyOf(ends, 2 * size);
      numbers = Arrays.copyOf(numbers, 2 * size * STRIDE);
    }
    System.arraycopy(name, 0, names, begin, length);
    ends[size] = begin + length;
    numbers[at] = hash;
    PointNumbers.clear(numbers, at + 1);
    places[place] = ++size;
    if (2 * size > places.length) {
      placeAgain();
    }
    return at;
  }

  private void placeAgain() {
    places = new int[1 << ++bits];
    for (int series = 0; series < size; series++) {
      int at = place((int) numbers[series * STRIDE]);
      while (places[at] != 0) {
        at = (at + 1) & (places.length - 1);
      }
      places[at] = series + 1;
    }
  }

  /** The block of each bucket, null where it has no series, with what is needed (`HostShares`). */
  byte[][] blocks(int most, long capacity) {
    long[] hashes = new long[size];
    int[] buckets = new int[size];
    int[] starts = new int[BUCKETS + 1];
    for (int series = 0; series < size; series++) {
      hashes[series] = SumsBlock.hash(names, begin(series), length(series));
      buckets[series] = bucket(series);
      starts[buckets[series] + 1]++;
    }
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
      starts[bucket + 1] += starts[bucket];
    }
    long[] order = new long[size]; // the first bits of a hash, and which series it is of
    int[] next = Arrays.copyOf(starts, BUCKETS);
    for (int series = 0; series < size; series++) {
      order[next[buckets[series]]++] = (hashes[series] & ~INDEX) | series;
    }
    byte[][] found = new byte[BUCKETS][];
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
      if (starts[bucket] < starts[bucket + 1]) {
        sort(order, starts[bucket], starts[bucket + 1], hashes);
        found[bucket] = block(order, starts[bucket], starts[bucket + 1], hashes, most, capacity);
      }
    }
    return found;
  }

  private int bucket(int series) {
    int end = ends[series];
    int from = Math.min(SumsCursor.slash(names, begin(series), end) + 1, end);
    int to = SumsCursor.slash(names, from, end);
    return (int) Math.floorMod(SumsBlock.hash(names, from, to - from), (long) BUCKETS);
  }

  private void sort(long[] order, int from, int to, final long[] hashes) {
    Arrays.sort(order, from, to);
    for (int begin = from; begin < to;) {
      int end = begin + 1;
      while (end < to && order[end] >> INDEX_BITS == order[begin] >> INDEX_BITS) {
        end++;
      }
      if (end > begin + 1) { // where the first bits are the same the rest decides
        sortWhole(order, begin, end, hashes);
      }
      begin = end;
    }
  }

  private void sortWhole(long[] order, int from, int to, final long[] hashes) {
    Object[] some = new Object[to - from];
    for (int i = 0; i < some.length; i++) {
      some[i] = Integer.valueOf((int) (order[from + i] & INDEX));
    }
    Arrays.sort(some, new Comparator() {
      @Override
      public int compare(Object one, Object other) {
        int first = ((Integer) one).intValue();
        int second = ((Integer) other).intValue();
        if (hashes[first] != hashes[second]) {
          return hashes[first] < hashes[second] ? -1 : 1;
        }
        return SumsCursor.compare(names, begin(first), length(first), names, begin(second), length(second));
      }
    });
    for (int i = 0; i < some.length; i++) {
      order[from + i] = ((Integer) some[i]).longValue();
    }
  }

  private byte[] block(long[] order, int from, int to, long[] hashes, int most, long capacity) {
    BitSet needed = needed(order, from, to, most, capacity);
    int room = 0;
    for (int i = from; i < to; i++) {
      int series = (int) (order[i] & INDEX);
      if (needed == null || needed.get(i - from)) {
        room += SumsBlock.room(length(series), numbers[series * STRIDE + 1 + PointNumbers.COUNT]);
      }
    }
    SumsBlock found = new SumsBlock(room);
    for (int i = from; i < to; i++) {
      int series = (int) (order[i] & INDEX);
      if (needed == null || needed.get(i - from)) {
        found.add(hashes[series], names, begin(series), length(series), numbers, series * STRIDE + 1);
      }
    }
    return found.made(most);
  }

  private BitSet needed(long[] order, int from, int to, int most, long capacity) {
    int bytes = 0;
    for (int i = from; i < to; i++) {
      bytes += length((int) (order[i] & INDEX));
    }
    if (HostShares.unitsAtMost(to - from, bytes) <= Math.min(most, capacity)) {
      return null;
    }
    HostShares shares = new HostShares(most, capacity);
    for (int i = from; i < to; i++) {
      int series = (int) (order[i] & INDEX);
      shares.add(names, begin(series), length(series));
    }
    return shares.needed();
  }
}
