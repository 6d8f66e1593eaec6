package kappa;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A thread that reads a topic of bounds into the table of this JVM: all of it when it starts, then what is appended. */
public class BoundsReader extends Thread {
  private static final Duration POLL = Duration.ofMillis(100);

  private final KafkaConsumer consumer;
  private final String topic;
  private final AlarmBounds table;
  private volatile boolean going = true;
  private volatile boolean ready = false;
  private volatile String failure = null;

  /** `client` are options of Kafka's clients. */
  public BoundsReader(Map client, String topic) {
    super("bounds");
    setDaemon(true);
    Map options = new HashMap(client);
    options.put("enable.auto.commit", "false");
    options.put("allow.auto.create.topics", "false");
    this.consumer = new KafkaConsumer(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    this.topic = topic;
    this.table = AlarmBounds.renewed(topic);
  }

  @Override
  public void run() {
    try {
      Map ends = begin();
      while (going) {
        Iterator records = consumer.poll(POLL).iterator();
        while (records.hasNext()) {
          byte[] value = (byte[]) ((ConsumerRecord) records.next()).value();
          if (value != null) {
            table.take(value);
          }
        }
        ready = ready || isRead(ends);
      }
    } catch (KafkaException error) {
      failure = error.toString();
    } catch (IllegalStateException error) {
      failure = error.getMessage();
    } finally {
      consumer.close(Duration.ZERO);
    }
  }

  private Map begin() {
    List parts = new ArrayList();
    List found = consumer.partitionsFor(topic);
    if (found == null || found.isEmpty()) {
      throw new IllegalStateException("there is no such topic");
    }
    for (int i = 0; i < found.size(); i++) {
      parts.add(new TopicPartition(topic, ((PartitionInfo) found.get(i)).partition()));
    }
    consumer.assign(parts);
    consumer.seekToBeginning(parts);
    return consumer.endOffsets(parts);
  }

  private boolean isRead(Map ends) {
    Iterator all = ends.entrySet().iterator();
    while (all.hasNext()) {
      Map.Entry end = (Map.Entry) all.next();
      if (consumer.position((TopicPartition) end.getKey()) < ((Long) end.getValue()).longValue()) {
        return false;
      }
    }
    return true;
  }

  /** Whether all that was there at the start is read. */
  public boolean isReady() {
    return ready;
  }

  /** What has ended it; null while it reads. */
  public String failure() {
    return failure;
  }

  /** End, within the time of a poll. */
  public void end() throws InterruptedException {
    going = false;
    join(2000L);
  }
}
