package kappa;

import java.time.Instant;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * A record of an input topic: Spark sets its properties from the columns of these names. As a `Row` each record would be copied once more, into
 * columns of the types and in the order of that row, and each of its numbers would be an object. It has all columns of Kafka's source, though
 * nobody asks for two of them: Spark would leave those out by copying each record once more.
 */
public class InputRecord {
  private static final int COLUMNS = 5;
  private static final long MILLION = 1000000L;

  private byte[] key;
  private byte[] value;
  private String topic;
  private int partition;
  private long offset;
  private Instant timestamp;
  private int timestampType;

  public byte[] getKey() {
    return key;
  }

  public void setKey(byte[] key) {
    this.key = key;
  }

  public byte[] getValue() {
    return value;
  }

  public void setValue(byte[] value) {
    this.value = value;
  }

  public String getTopic() {
    return topic;
  }

  public void setTopic(String topic) {
    this.topic = topic;
  }

  public int getPartition() {
    return partition;
  }

  public void setPartition(int partition) {
    this.partition = partition;
  }

  public long getOffset() {
    return offset;
  }

  public void setOffset(long offset) {
    this.offset = offset;
  }

  public Instant getTimestamp() {
    return timestamp;
  }

  public void setTimestamp(Instant timestamp) {
    this.timestamp = timestamp;
  }

  public int getTimestampType() {
    return timestampType;
  }

  public void setTimestampType(int timestampType) {
    this.timestampType = timestampType;
  }

  /** The append time, microseconds since 1970. */
  long appended() {
    return timestamp.getEpochSecond() * MILLION + timestamp.getNano() / 1000;
  }

  /** A row of topic, partition, offset, append time, value, and so many nulls behind them. */
  Row before(int nulls) {
    Object[] row = new Object[COLUMNS + nulls];
    row[0] = topic;
    row[1] = Integer.valueOf(partition);
    row[2] = Long.valueOf(offset);
    row[3] = Long.valueOf(appended());
    row[4] = value;
    return RowFactory.create(row);
  }

  /** A row of so many nulls as there are columns of a record, and values behind them. */
  static Row behind(Object[] values) {
    Object[] row = new Object[COLUMNS + values.length];
    System.arraycopy(values, 0, row, COLUMNS, values.length);
    return RowFactory.create(row);
  }
}
