package kappa;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
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

  /** The sums of both. */
  static byte[] merged(byte[] one, byte[] other) {
    SumsBlock found = new SumsBlock(one.length + other.length);
    SumsCursor left = new SumsCursor(one);
    SumsCursor right = new SumsCursor(other);
    long[] sums = new long[PointNumbers.SIZE];
    boolean more = left.next();
    boolean others = right.next();
    while (more || others) {
      int order = more && others ? left.compare(right) : more ? -1 : 1;
      if (order == 0) {
        PointNumbers.clear(sums, 0);
        left.addTo(sums);
        right.addTo(sums);
        found.add(left.hash, left.bytes, left.name, left.length, sums, 0);
      } else {
        found.copy(order < 0 ? left : right);
      }
      more = order <= 0 ? left.next() : more;
      others = order >= 0 ? right.next() : others;
    }
    int most = most(one);
    byte[] made = found.made(most);
    // Some more than are needed do no harm, and are counted seldom.
    return series(made) > 2L * most ? least(made) : made;
  }

  /** The block without the series that no host needs: those after as many of the same kind as are needed. */
  static byte[] least(byte[] block) {
    int most = most(block);
    if (series(block) <= most) {
      return block;
    }
    SumsBlock found = new SumsBlock(block.length);
    Map counts = new HashMap(); // KIND/HOST -> int[1]
    SumsCursor cursor = new SumsCursor(block);
    while (cursor.next()) {
      String owner = cursor.owner();
      int[] count = (int[]) counts.get(owner);
      if (count == null) {
        count = new int[1];
        counts.put(owner, count);
      }
      if (count[0]++ < most) {
        found.copy(cursor);
      }
    }
    return found.made(most);
  }
}
