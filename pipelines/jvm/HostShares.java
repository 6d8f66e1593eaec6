package kappa;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;

/**
 * Which series of a window and bucket of hosts are needed, of all of them in the order of a block.
 *
 * <p>A series counts as one for each `UNIT` bytes of its name. The hosts have the same share at most (max-min fairness): the largest with
 * which all together have no more than `capacity`. Needed of a host are the first series, up to the one with which they come to more than
 * that share, or to `most`: by this one it is seen that there were more. Where there are more hosts than `capacity`, of `capacity` + 1 of them the
 * first series, those with the least hashes.
 *
 * <p>With more series shares fall, and what is before a series grows. So what is not needed of some series is not needed of more of them, and
 * shares of what is needed are those of all: it may be left out before or after others come, in any order.
 */
final class HostShares {
  private static final int UNIT = 256;
  private static final int FIRST = 1024;

  private final long most;
  private final long capacity;
  private final Map numbers = new HashMap(); // host -> Integer
  private long[] units = new long[16]; // of all series of a host
  private int[] owners = new int[FIRST]; // of each series its host
  private short[] costs = new short[FIRST]; // of each series its units
  private int size = 0;

  HostShares(long most, long capacity) {
    this.most = most;
    this.capacity = capacity;
  }

  static int units(int length) {
    return Math.max(1, (length + UNIT - 1) / UNIT);
  }

  /** No fewer than the units of so many series that take so many bytes together. */
  static long unitsAtMost(int series, int bytes) {
    return (long) series + bytes / UNIT;
  }

  /** The next series. */
  void add(byte[] name, int from, int length) {
    int cost = units(length);
    int host = number(SumsCursor.host(name, from, length));
    units[host] += cost;
    if (size == owners.length) {
      owners = Arrays.copyOf(owners, 2 * size);
      costs = Arrays.copyOf(costs, 2 * size);
    }
    owners[size] = host;
    costs[size++] = (short) cost; // a record has a megabyte at most
  }

  private int number(String host) {
    Integer known = (Integer) numbers.get(host);
    if (known == null) {
      known = Integer.valueOf(numbers.size());
      numbers.put(host, known);
      if (known.intValue() == units.length) {
        units = Arrays.copyOf(units, 2 * units.length);
      }
    }
    return known.intValue();
  }

  /** Which of the series are needed; null where all are. */
  BitSet needed() {
    long share = share();
    boolean[] gone = share == 0 ? beyond() : null;
    long enough = Math.min(most, share + 1);
    long[] before = new long[numbers.size()];
    BitSet found = new BitSet(size);
    for (int i = 0; i < size; i++) {
      int host = owners[i];
      if (before[host] < enough && (gone == null || !gone[host])) {
        found.set(i);
      }
      before[host] += costs[i];
    }
    return found.cardinality() == size ? null : found;
  }

  /** In the order of what they have, a host may have an equal part of what those before it leave; the first with more has that part, as all after it. */
  private long share() {
    long[] each = Arrays.copyOf(units, numbers.size());
    for (int i = 0; i < each.length; i++) {
      each[i] = Math.min(each[i], most);
    }
    Arrays.sort(each);
    long left = capacity;
    for (int i = 0; i < each.length; i++) {
      long part = left / (each.length - i);
      if (each[i] > part) {
        return part;
      }
      left -= each[i];
    }
    return most;
  }

  /** Which hosts are beyond the first `capacity` + 1. */
  private boolean[] beyond() {
    Object[] order = new Object[numbers.size()];
    int at = 0;
    for (Object name : numbers.keySet()) {
      order[at++] = new Host((String) name);
    }
    Arrays.sort(order, new Comparator() {
      @Override
      public int compare(Object one, Object other) {
        return ((Host) one).compare((Host) other);
      }
    });
    boolean[] found = new boolean[order.length];
    for (long i = capacity + 1; i < order.length; i++) {
      found[((Integer) numbers.get(((Host) order[(int) i]).name)).intValue()] = true;
    }
    return found;
  }

  /** A host and its hash. */
  private static final class Host {
    final String name;
    private final long hash;

    Host(String name) {
      this.name = name;
      byte[] bytes = name.getBytes(StandardCharsets.ISO_8859_1);
      hash = SumsBlock.hash(bytes, 0, bytes.length);
    }

    int compare(Host with) {
      return hash == with.hash ? name.compareTo(with.name) : hash < with.hash ? -1 : 1;
    }
  }
}
