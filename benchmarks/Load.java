package kappa.bench;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Canonical events at a fixed rate, each with the time at which it is sent: the load of latency.py.
 *
 * <p>In each window one series of `ODD` is far from what it was.
 */
public class Load extends Thread implements Callback {
  private static final long STEP_MILLIS = 20;
  private static final int ODD = 500;
  private static final double AWAY = 50;

  private final KafkaProducer producer;
  private final String topic;
  private final int rate;
  private final int series;
  private final int hosts;
  private final long windowMillis;
  private final Random random = new Random(1);
  private volatile boolean going = true;
  private volatile Exception failed;

  /** `settings` are those of a Kafka producer; events are of series 0, 1, ..., `series` - 1 in turn. */
  public Load(Map settings, String topic, int rate, int series, int hosts, long windowMillis) {
    super("load");
    setDaemon(true);
    this.producer = new KafkaProducer(settings, new ByteArraySerializer(), new ByteArraySerializer());
    this.topic = topic;
    this.rate = rate;
    this.series = series;
    this.hosts = hosts;
    this.windowMillis = windowMillis;
  }

  @Override
  public void run() {
    long began = System.currentTimeMillis(), sent = 0;
    while (going && failed == null) {
      long now = System.currentTimeMillis();
      String time = Instant.ofEpochMilli(now).toString();
      for (long due = (now - began) * rate / 1000; sent < due; sent++) {
        send(now, time, (int) (sent % series));
      }
      try {
        Thread.sleep(STEP_MILLIS);
      } catch (InterruptedException interrupted) {
        going = false;
      }
    }
    producer.close();
  }

  private void send(long now, String time, int number) {
    double value = 50 + random.nextGaussian() + ((number * 31L + now / windowMillis * 17) % ODD == 0 ? AWAY : 0);
    String host = "host-" + number % hosts;
    long digits = Math.round(10000 * value);
    String event = "{\"@timestamp\":\"" + time + "\",\"host.name\":\"" + host
        + "\",\"metric.name\":\"system.cpu.core" + number / hosts
        + "\",\"metric.value\":" + digits / 10000 + "." + (10000 + digits % 10000 + "}").substring(1);
    byte[] key = host.getBytes(StandardCharsets.UTF_8);
    producer.send(new ProducerRecord(topic, key, event.getBytes(StandardCharsets.UTF_8)), this);
  }

  @Override
  public void onCompletion(RecordMetadata where, Exception error) {
    if (error != null) {
      failed = error;
    }
  }

  /** End, and wait for what is under way. Raises what kept an event from the log. */
  public void end() throws Exception {
    going = false;
    join();
    if (failed != null) {
      throw failed;
    }
  }
}
