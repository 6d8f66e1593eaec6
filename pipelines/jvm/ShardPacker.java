package kappa;

import java.io.ByteArrayOutputStream;
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
 * Records of the topic "statistics" (value) -> (shard, their values, a line each), many records to a row.
 *
 * <p>A row costs the same on its way through the shuffle, to Python and there whether it holds one record or thousands.
 */
public class ShardPacker implements MapPartitionsFunction {
  private static final byte[] MEMBER = {'"', 's', 'h', 'a', 'r', 'd', '"', ':'};
  private static final int SHOWN = 200; // bytes of a record that an error says
  private static final int ENOUGH = 1 << 18; // bytes of a row: all shards of a partition wait in memory

  @Override
  public Iterator call(Iterator records) {
    return new Packed(records);
  }

  /** Reads as far as it must to have a row. */
  static class Packed implements Iterator {
    private final Iterator records;
    private final Map open = new HashMap(); // shard -> ByteArrayOutputStream
    private final List ready = new ArrayList();

    Packed(Iterator records) {
      this.records = records;
    }

    @Override
    public boolean hasNext() {
      while (ready.isEmpty() && records.hasNext()) {
        take((byte[]) ((Row) records.next()).get(0));
      }
      if (ready.isEmpty()) {
        Iterator rest = open.entrySet().iterator();
        while (rest.hasNext()) {
          Map.Entry entry = (Map.Entry) rest.next();
          ready.add(row((Integer) entry.getKey(), (ByteArrayOutputStream) entry.getValue()));
        }
        open.clear();
      }
      return !ready.isEmpty();
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return ready.remove(ready.size() - 1);
    }

    private void take(byte[] record) {
      Integer shard = Integer.valueOf(shardOf(record));
      ByteArrayOutputStream lines = (ByteArrayOutputStream) open.get(shard);
      if (lines == null) {
        lines = new ByteArrayOutputStream(1 << 12);
        open.put(shard, lines);
      }
      if (lines.size() > 0) {
        lines.write('\n');
      }
      lines.write(record, 0, record.length);
      if (lines.size() >= ENOUGH) {
        ready.add(row(shard, lines));
        lines.reset();
      }
    }

    private static Row row(Integer shard, ByteArrayOutputStream lines) {
      return RowFactory.create(new Object[] {shard, lines.toByteArray()});
    }
  }

  /** The number of the last member "shard". A quote within a JSON string is escaped, so the name stands nowhere else. */
  static int shardOf(byte[] record) {
    for (int at = record == null ? -1 : record.length - MEMBER.length - 1; at >= 0; at--) {
      int same = 0;
      while (same < MEMBER.length && record[at + same] == MEMBER[same]) {
        same++;
      }
      if (same == MEMBER.length) {
        int found = 0, from = at + same, to = from;
        while (to < record.length && record[to] >= '0' && record[to] <= '9' && to < from + 9) {
          found = 10 * found + record[to++] - '0';
        }
        if (to > from) {
          return found;
        }
        break;
      }
    }
    throw new IllegalArgumentException(
        "a record of the topic of statistics without a shard: "
            + (record == null ? "null" : new String(record, 0, Math.min(record.length, SHOWN))));
  }
}
