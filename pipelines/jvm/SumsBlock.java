package kappa;

import java.util.Arrays;
import java.util.BitSet;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * The sums of many series of one window as an array of bytes, by the hash of their names and then by the names.
 *
 * <p>Two of them become one by going through both once. A series with one point has that point alone: what is summed follows from it.
 * Hashes are those by which pipelines/overflow.py chooses the series that a host may have.
 */
final class SumsBlock {
  private static final int HEADER = 8; // how many series there are, and how many of a host and kind are needed
  private static final long SEED = 42; // of Spark's xxhash64

  private byte[] bytes;
  private int at = HEADER;
  private int series = 0;

  SumsBlock(int room) {
    bytes = new byte[HEADER + room];
  }

  static long hash(byte[] name, int from, int length) {
    return XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET + from, length, SEED);
  }

  /** How many bytes a series takes, with a name of a length and so many points. */
  static int room(int length, long points) {
    return 12 + length + 8 * (points == 1 ? 2 : PointNumbers.SIZE);
  }

  /** Add a series, which comes after those that are there. Its numbers begin at a place, as `PointNumbers` has them. */
  void add(long hash, byte[] name, int from, int length, long[] numbers, int place) {
    long points = numbers[place + PointNumbers.COUNT];
    boolean single = points == 1;
    need(room(length, points));
    putLong(hash);
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET + at, length << 1 | (single ? 1 : 0));
    at += 4;
    System.arraycopy(name, from, bytes, at, length);
    at += length;
    if (single) {
      putLong(numbers[place + PointNumbers.ORDER]);
      putLong(numbers[place + PointNumbers.LAST]);
    } else {
      for (int i = place; i < place + PointNumbers.SIZE; i++) {
        putLong(numbers[i]);
      }
    }
    series++;
  }

  private void copy(SumsCursor of) {
    need(of.end - of.begin);
    System.arraycopy(of.bytes, of.begin, bytes, at, of.end - of.begin);
    at += of.end - of.begin;
    series++;
  }

  private void putLong(long number) {
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + at, number);
    at += 8;
  }

  private void need(int room) {
    if (at + room > bytes.length) {
      bytes = Arrays.copyOf(bytes, Math.max(at + room, bytes.length + bytes.length / 2));
    }
  }

  /** The bytes, of which no more than `most` series of a host and kind are needed. */
  byte[] made(int most) {
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET, series);
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET + 4, most);
    return at == bytes.length ? bytes : Arrays.copyOf(bytes, at);
  }

  static int begin() {
    return HEADER;
  }

  private static int series(byte[] block) {
    return Platform.getInt(block, Platform.BYTE_ARRAY_OFFSET);
  }

  private static int most(byte[] block) {
    return Platform.getInt(block, Platform.BYTE_ARRAY_OFFSET + 4);
  }

  /** No fewer than the units (`HostShares`) of all series of a block. */
  private static long unitsAtMost(byte[] block) {
    return HostShares.unitsAtMost(series(block), block.length - series(block) * room(0, 1));
  }

  /** The sums of both. Where they are many, of what is needed of all hosts together, which may have so many units. */
  static byte[] merged(byte[] one, byte[] other, long capacity) {
    int most = most(one);
    // Some more than are needed do no harm, and are counted seldom.
    boolean many = Math.max(unitsAtMost(one), unitsAtMost(other)) > 2L * most;
    return merged(one, other, many ? needed(new SumsPair(one, other), most, capacity) : null);
  }

  /** The block without what is not needed. */
  static byte[] needed(byte[] block, long capacity) {
    int most = most(block);
    if (unitsAtMost(block) <= Math.min(most, capacity)) {
      return block;
    }
    byte[] nothing = new SumsBlock(0).made(most);
    BitSet needed = needed(new SumsPair(block, nothing), most, capacity);
    return needed == null ? block : merged(block, nothing, needed);
  }

  private static BitSet needed(SumsPair series, int most, long capacity) {
    HostShares shares = new HostShares(most, capacity);
    while (series.next()) {
      shares.add(series.at().bytes, series.at().name, series.at().length);
    }
    return shares.needed();
  }

  /** The sums of both: all, or those of the series that are needed. */
  private static byte[] merged(byte[] one, byte[] other, BitSet needed) {
    SumsBlock found = new SumsBlock(needed == null ? one.length + other.length : room(one, other, needed));
    SumsPair pair = new SumsPair(one, other);
    long[] sums = new long[PointNumbers.SIZE];
    for (int i = 0; pair.next(); i++) {
      if (needed != null && !needed.get(i)) {
        continue;
      }
      SumsCursor at = pair.at();
      if (pair.other() == null) {
        found.copy(at);
      } else {
        PointNumbers.clear(sums, 0);
        at.addTo(sums);
        pair.other().addTo(sums);
        found.add(at.hash, at.bytes, at.name, at.length, sums, 0);
      }
    }
    return found.made(most(one));
  }

  private static int room(byte[] one, byte[] other, BitSet needed) {
    int room = 0;
    SumsPair pair = new SumsPair(one, other);
    for (int i = 0; pair.next(); i++) {
      if (needed.get(i)) {
        SumsCursor at = pair.at();
        room += pair.other() == null ? at.end - at.begin : room(at.length, 2);
      }
    }
    return room;
  }
}
