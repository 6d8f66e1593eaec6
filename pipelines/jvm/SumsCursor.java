package kappa;

import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.Platform;

/** Goes through the series of a `SumsBlock`, one at a time. */
final class SumsCursor {
  final byte[] bytes;
  int begin; // of the series at hand
  int end = SumsBlock.begin();
  long hash;
  int name; // where it begins
  int length; // of the name

  private boolean single;
  private final long[] other = new long[PointNumbers.SIZE];

  SumsCursor(byte[] block) {
    bytes = block;
  }

  boolean next() {
    if (end == bytes.length) {
      return false;
    }
    begin = end;
    hash = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + begin);
    int about = Platform.getInt(bytes, Platform.BYTE_ARRAY_OFFSET + begin + 8);
    single = (about & 1) == 1;
    length = about >>> 1;
    name = begin + 12;
    end = name + length + 8 * (single ? 2 : PointNumbers.SIZE);
    return true;
  }

  private long number(int i) {
    return Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + name + length + 8 * i);
  }

  /** Add the numbers of the series at hand to others. */
  void addTo(long[] numbers) {
    if (single) {
      boolean counter = PointNumbers.isCounter(bytes, name, length);
      PointNumbers.add(numbers, 0, Double.longBitsToDouble(number(1)), counter, number(0));
    } else {
      for (int i = 0; i < PointNumbers.SIZE; i++) {
        other[i] = number(i);
      }
      PointNumbers.add(numbers, other);
    }
  }

  /** Below 0 where the series at hand comes before another one's, 0 where it is the same. */
  int compare(SumsCursor with) {
    if (hash != with.hash) {
      return hash < with.hash ? -1 : 1;
    }
    return compare(bytes, name, length, with.bytes, with.name, with.length);
  }

  static int compare(byte[] one, int from, int length, byte[] other, int begin, int size) {
    for (int i = 0; i < Math.min(length, size); i++) {
      int difference = (one[from + i] & 0xFF) - (other[begin + i] & 0xFF);
      if (difference != 0) {
        return difference;
      }
    }
    return length - size;
  }

  String name() {
    return new String(bytes, name, length, StandardCharsets.UTF_8);
  }

  /** The host of a series, as it stands in the name: what is between its first two slashes. */
  static String host(byte[] name, int from, int length) {
    int begin = Math.min(slash(name, from, from + length) + 1, from + length);
    return new String(name, begin, slash(name, begin, from + length) - begin, StandardCharsets.ISO_8859_1);
  }

  /** Where the next slash is, or the end. */
  static int slash(byte[] name, int from, int end) {
    int at = from;
    while (at < end && name[at] != '/') {
      at++;
    }
    return at;
  }
}
