package kappa;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkTracker;
import scala.collection.Iterator;

/** How far a running query has read its partitions, and the watermark of its next batch. Used between two batches, by the query's thread. */
public class QueryProgress {
  private static final JsonFactory JSON = new JsonFactory();

  private final MicroBatchExecution query;

  public QueryProgress(MicroBatchExecution query) {
    this.query = query;
  }

  /** The offset of the first record that the next batch reads, by `TopicPartition`. Empty before the first batch. */
  public Map nextOffsets() throws IOException {
    Map found = new HashMap();
    for (Iterator sources = query.committedOffsets().valuesIterator(); sources.hasNext();) {
      addOffsets(((Offset) sources.next()).json(), found);
    }
    return found;
  }

  /** Add offsets from Spark's text, `{"TOPIC":{"PARTITION":OFFSET}}`. */
  static void addOffsets(String text, Map found) throws IOException {
    JsonParser parser = JSON.createParser(text);
    parser.nextToken();
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String topic = parser.getCurrentName();
      parser.nextToken();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        int partition = Integer.parseInt(parser.getCurrentName());
        parser.nextToken();
        found.put(new TopicPartition(topic, partition), Long.valueOf(parser.getLongValue()));
      }
    }
    parser.close();
  }

  /**
   * Whether the last trigger found nothing for a batch to do. Spark has remembered the next batch with its watermark then, and ends the query
   * where it has another one.
   */
  public boolean isIdle() {
    IncrementalExecution last = query.lastExecution(); // the next batch has it too, until it is planned
    return last == null || last.currentBatchId() != query.getLatestExecutionContext().batchId();
  }

  /**
   * Let the next batch close all windows up to a time, epoch ms, after it has added its own records to them.
   *
   * <p>Spark compares the records of a batch with the watermark of the batch before. So none of the next batch is late by this one,
   * and the caller has to know that none of a later batch belongs to a closed window.
   */
  public void raiseWatermark(long to) {
    WatermarkTracker tracker = query.watermarkTracker();
    if (to > tracker.currentWatermark()) {
      tracker.setWatermark(to);
    }
  }
}
