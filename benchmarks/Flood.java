package kappa.bench;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Records that differ in words alone: what one host sends in flood.py.
 *
 * <p>Record i is `texts`[0], a word of i modulo `counts`[0], `texts`[1], ..., the last text. A word has letters alone, so a message
 * with it has a template of its own. Where a record has a `name` that ends in the first word, that is its key.
 */
public class Flood implements Callback {
  private static final int LETTERS = 26;
  private static final String NAME = "\"name\":\"";

  private final KafkaProducer producer;
  private final String topic;
  private final int partitions;
  private volatile Exception failed;

  /** `settings` are those of a Kafka producer; records go to the partitions in turn. */
  public Flood(Map settings, String topic, int partitions) {
    this.producer = new KafkaProducer(settings, new ByteArraySerializer(), new ByteArraySerializer());
    this.topic = topic;
    this.partitions = partitions;
  }

  /** Append records `first` to `end` - 1 with this append time, and wait until all are in the log. */
  public void send(String[] texts, long[] counts, long first, long end, long moment) throws Exception {
    byte[][] pieces = new byte[texts.length][];
    for (int i = 0; i < texts.length; i++) {
      pieces[i] = texts[i].getBytes(StandardCharsets.UTF_8);
    }
    int name = texts[0].lastIndexOf(NAME); // texts[0] is ASCII
    byte[] room = new byte[1 << 16];
    Long time = Long.valueOf(moment);
    for (long i = first; i < end && failed == null; i++) {
      int size = 0;
      byte[] key = null;
      for (int piece = 0; piece < pieces.length; piece++) {
        System.arraycopy(pieces[piece], 0, room, size, pieces[piece].length);
        size += pieces[piece].length;
        if (piece < counts.length) {
          size = word(i % counts[piece], room, size);
        }
        if (piece == 0 && name >= 0) {
          key = Arrays.copyOfRange(room, name + NAME.length(), size);
        }
      }
      byte[] value = new byte[size];
      System.arraycopy(room, 0, value, 0, size);
      producer.send(new ProducerRecord(topic, Integer.valueOf((int) (i % partitions)), time, key, value), this);
    }
    producer.flush();
    if (failed != null) {
      throw failed;
    }
  }

  private static int word(long number, byte[] into, int at) {
    do {
      into[at++] = (byte) ('a' + number % LETTERS);
      number /= LETTERS;
    } while (number > 0);
    return at;
  }

  @Override
  public void onCompletion(RecordMetadata where, Exception error) {
    if (error != null) {
      failed = error;
    }
  }

  /** End. */
  public void close() {
    producer.close();
  }
}
