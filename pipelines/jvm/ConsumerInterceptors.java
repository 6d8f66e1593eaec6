package org.apache.kafka.clients.consumer.internals;

import java.io.Closeable;
import java.util.List;
import java.util.Map;
import kappa.PollBytes;
import kappa.TaskProgress;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;

/**
 * Takes the place of Kafka's class of this name in Spark's JVM, because a consumer calls it at the end of each poll that answers
 * records: so `ByteArrayDeserializer` knows which records come from one poll. Spark lets nobody name an interceptor.
 */
public class ConsumerInterceptors implements Closeable {
  private final List interceptors;

  public ConsumerInterceptors(List interceptors) {
    this.interceptors = interceptors;
  }

  public boolean isEmpty() {
    return interceptors.isEmpty();
  }

  public ConsumerRecords onConsume(ConsumerRecords records) {
    PollBytes.next();
    TaskProgress.advance();
    ConsumerRecords found = records;
    for (int i = 0; i < interceptors.size(); i++) {
      found = ((ConsumerInterceptor) interceptors.get(i)).onConsume(found);
    }
    return found;
  }

  public void onCommit(Map offsets) {
    for (int i = 0; i < interceptors.size(); i++) {
      ((ConsumerInterceptor) interceptors.get(i)).onCommit(offsets);
    }
  }

  @Override
  public void close() {
    for (int i = 0; i < interceptors.size(); i++) {
      ((ConsumerInterceptor) interceptors.get(i)).close();
    }
  }
}
