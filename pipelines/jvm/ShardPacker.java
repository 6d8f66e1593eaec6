package kappa;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Records of the topic "statistics" (value, partition, offset, append time in ms) -> (shard, bytes), many records to a row:
 * MetricColumns of the rows of metrics, the values of all others, a line each. One that "extract" has not written is a row of its
 * own: the shard REFUSED and a letter about it.
 *
 * <p>A row costs the same on its way through the shuffle, to Python and there whether it holds one record or thousands.
 */
public class ShardPacker implements MapPartitionsFunction {
  static final int REFUSED = -1;
  private static final int ENOUGH = 1 << 18; // bytes of a row: all shards of a partition wait in memory

  private final String topic;
  private final int partitions, shards, most, letter;
  private final long window, ahead;

  /** Of this topic; `letter` is how many bytes of a record a letter holds, the others are as in StatisticsRecord. */
  public ShardPacker(String topic, int partitions, int shards, long window, long ahead, int most, int letter) {
    this.topic = topic;
    this.partitions = partitions;
    this.shards = shards;
    this.window = window;
    this.ahead = ahead;
    this.most = most;
    this.letter = letter;
  }

  @Override
  public Iterator call(Iterator records) {
    return new Packed(records, this);
  }

  /** What is to become rows of a shard. */
  static class Waiting {
    final ByteArrayOutputStream lines = new ByteArrayOutputStream(1 << 8);
    final MetricColumns metrics = new MetricColumns();
  }

  /** Reads as far as it must to have a row. */
  static class Packed implements Iterator {
    private final Iterator records;
    private final ShardPacker own;
    private final StatisticsRecord reader;
    private final Map open = new HashMap(); // shard -> Waiting
    private final List ready = new ArrayList();

    Packed(Iterator records, ShardPacker own) {
      this.records = records;
      this.own = own;
      this.reader = new StatisticsRecord(own.partitions, own.shards, own.window, own.ahead, own.most);
    }

    @Override
    public boolean hasNext() {
      while (ready.isEmpty() && records.hasNext()) {
        take((Row) records.next());
      }
      if (ready.isEmpty()) {
        Iterator rest = open.entrySet().iterator();
        while (rest.hasNext()) {
          Map.Entry entry = (Map.Entry) rest.next();
          Waiting waiting = (Waiting) entry.getValue();
          if (waiting.lines.size() > 0) {
            ready.add(row((Integer) entry.getKey(), waiting.lines.toByteArray()));
          }
          if (waiting.metrics.size() > 0) {
            ready.add(row((Integer) entry.getKey(), waiting.metrics.take()));
          }
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

    private void take(Row source) {
      byte[] record = (byte[]) source.get(0);
      String problem = reader.problem(record, source.getInt(1), source.getLong(3));
      if (problem != null) {
        byte[] whole = record == null ? new byte[0] : record;
        ready.add(row(Integer.valueOf(REFUSED), letter(whole, source, problem)));
        return;
      }
      Integer shard = Integer.valueOf(reader.shard);
      Waiting waiting = (Waiting) open.get(shard);
      if (waiting == null) {
        waiting = new Waiting();
        open.put(shard, waiting);
      }
      if (reader.isMetric) {
        waiting.metrics.add(reader.end, reader.n, reader.numbers, reader.name, reader.nameLength);
        if (waiting.metrics.size() >= ENOUGH) {
          ready.add(row(shard, waiting.metrics.take()));
        }
        return;
      }
      ByteArrayOutputStream lines = waiting.lines;
      if (lines.size() > 0) {
        lines.write('\n');
      }
      lines.write(record, 0, record.length);
      if (lines.size() >= ENOUGH) {
        ready.add(row(shard, lines.toByteArray()));
        lines.reset();
      }
    }

    /** A letter as pipelines/letters.py has it. Reasons and names of topics have nothing that JSON escapes. */
    private byte[] letter(byte[] record, Row source, String problem) {
      StringBuilder hash = new StringBuilder(64);
      byte[] digest;
      try {
        digest = MessageDigest.getInstance("SHA-256").digest(record);
      } catch (java.security.NoSuchAlgorithmException never) { // every Java has it
        throw new IllegalStateException(never.toString());
      }
      for (int i = 0; i < digest.length; i++) {
        hash.append(Character.forDigit((digest[i] >> 4) & 15, 16)).append(Character.forDigit(digest[i] & 15, 16));
      }
      byte[] kept = record.length > own.letter ? Arrays.copyOf(record, own.letter) : record;
      String text = "{\"record\":\"refused\",\"topic\":\"" + own.topic + "\",\"partition\":" + source.getInt(1) + ",\"offset\":"
          + source.getLong(2) + ",\"timestamp\":" + source.getLong(3) + ",\"reason\":\"" + problem
          + "\",\"stage\":\"detect\",\"length\":" + record.length + ",\"sha256\":\"" + hash + "\",\"value\":\""
          + Base64.getEncoder().encodeToString(kept) + "\"}";
      return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Row row(Integer shard, byte[] value) {
      return RowFactory.create(new Object[] {shard, value});
    }
  }
}
