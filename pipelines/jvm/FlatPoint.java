package kappa;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * The bytes of a flat canonical record of telemetry -> (event time in microseconds, series, value); null for what is not
 * plainly good.
 */
public class FlatPoint extends FlatRecord {
  static final double MAX_GAUGE = 1e15;
  static final double MAX_COUNTER = 1e18;
  static final int MAX_LABELS = 16;
  static final int MAX_LABEL = 128;
  static final int MAX_SERIES = 2048; // bytes of a series' whole name

  @Override
  public Object call(Object record) throws IOException {
    PlainPoint plain = new PlainPoint();
    if (!plain.read((byte[]) record)) {
      return parsed(record);
    }
    String series = new String(plain.name, 0, plain.length, StandardCharsets.US_ASCII);
    return RowFactory.create(new Object[] {plain.micros, series, plain.value});
  }

  @Override
  Row read(JsonParser parser) throws IOException {
    String host = null, service = null, metric = null, type = null, labels = null;
    long time = -1;
    double value = Double.NaN;
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      JsonToken token = parser.nextToken();
      if (token == null) {
        return null;
      }
      boolean text = token == JsonToken.VALUE_STRING;
      boolean none = token == JsonToken.VALUE_NULL;
      // The last of equal names counts for some readers, the first for others: that is looked at again.
      if (name.equals("@timestamp")) {
        if (!text || time >= 0 || (time = time(parser)) < 0) {
          return null;
        }
      } else if (name.equals("host.name")) {
        if (!text || host != null || !isName(host = parser.getText())) {
          return null;
        }
      } else if (name.equals("metric.name")) {
        if (!text || metric != null || !isName(metric = parser.getText())) {
          return null;
        }
      } else if (name.equals("metric.value")) {
        if (!token.isNumeric() || value == value) {
          return null;
        }
        value = parser.getDoubleValue();
      } else if (name.equals("service.name")) {
        if (service != null || !(text || none)) {
          return null;
        }
        service = none ? "" : parser.getText();
        if (service.length() > MAX_NAME || !clean(service)) {
          return null;
        }
      } else if (name.equals("metric.type")) {
        if (type != null || !(text || none)) {
          return null;
        }
        type = none ? "" : parser.getText();
      } else if (name.equals("labels")) {
        if (labels != null || (labels = none ? "" : labels(parser, token)) == null) {
          return null;
        }
      } else if (otherForm(name) || name.equals("service") || name.equals("metric")) { // may say what is null here
        return null;
      } else {
        parser.skipChildren();
      }
    }
    boolean counter = "counter".equals(type);
    boolean good = time >= 0 && host != null && metric != null && Math.abs(value) <= (counter ? MAX_COUNTER : MAX_GAUGE);
    if (!good || !ends(parser)) {
      return null;
    }
    StringBuilder series = new StringBuilder(96).append(counter ? "counter/" : "gauge/");
    quote(series, host);
    series.append('/');
    if (service != null) {
      quote(series, service);
    }
    series.append('/');
    quote(series, metric);
    if (labels != null) {
      quote(series, labels);
    }
    return bytes(series) > MAX_SERIES ? null : RowFactory.create(new Object[] {time, series.toString(), value});
  }

  /** How many bytes of UTF-8 a text takes that has no surrogates. */
  private static int bytes(StringBuilder text) {
    int found = text.length();
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      found += c < 0x80 ? 0 : c < 0x800 ? 1 : 2;
    }
    return found;
  }

  /** "{k=v,...}" sorted by key, "" for no labels, null for what needs a second look. */
  private static String labels(JsonParser parser, JsonToken token) throws IOException {
    if (token != JsonToken.START_OBJECT) {
      return null;
    }
    String[] keys = new String[MAX_LABELS];
    String[] values = new String[MAX_LABELS];
    int count = 0;
    for (String key = parser.nextFieldName(); key != null; key = parser.nextFieldName()) {
      JsonToken found = parser.nextToken();
      if (count == MAX_LABELS || found != JsonToken.VALUE_STRING) {
        return null;
      }
      String value = parser.getText();
      if (key.length() > MAX_LABEL || value.length() > MAX_LABEL || !clean(key) || !clean(value)) {
        return null;
      }
      int at = count;
      while (at > 0 && keys[at - 1].compareTo(key) >= 0) {
        if (keys[at - 1].equals(key)) {
          return null;
        }
        keys[at] = keys[at - 1];
        values[at] = values[at - 1];
        at--;
      }
      keys[at] = key;
      values[at] = value;
      count++;
    }
    if (count == 0) {
      return "";
    }
    StringBuilder text = new StringBuilder(64);
    for (int i = 0; i < count; i++) {
      text.append(i == 0 ? '{' : ',').append(keys[i]).append('=').append(values[i]);
    }
    return text.append('}').toString();
  }
}
