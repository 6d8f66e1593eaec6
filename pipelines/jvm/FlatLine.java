package kappa;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * The bytes of a flat canonical log record -> (event time in microseconds, host, service, level as given, message); null for
 * what is not plainly good. Without a service that is empty, and without a level it is null, where no other member can name them.
 */
public class FlatLine extends FlatRecord {
  static final int MAX_MESSAGE = 8192;

  @Override
  public Object call(Object record) throws IOException {
    PlainLine plain = new PlainLine();
    if (!plain.read((byte[]) record)) {
      return parsed(record);
    }
    return RowFactory.create(new Object[] {plain.micros, plain.host(), plain.service(), plain.level(), plain.messageText()});
  }

  @Override
  Row read(JsonParser parser) throws IOException {
    String host = null, service = null, level = null, message = null;
    long time = -1;
    boolean others = false;
    for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
      JsonToken token = parser.nextToken();
      boolean text = token == JsonToken.VALUE_STRING;
      if (token == null) {
        return null;
      }
      if (name.equals("@timestamp")) {
        if (!text || time >= 0 || (time = time(parser)) < 0) {
          return null;
        }
      } else if (name.equals("host.name")) {
        if (!text || host != null || !isName(host = parser.getText())) {
          return null;
        }
      } else if (name.equals("service.name")) {
        if (!text || service != null || !isName(service = parser.getText())) {
          return null;
        }
      } else if (name.equals("log.level")) {
        if (!text || level != null) {
          return null;
        }
        level = parser.getText();
      } else if (name.equals("message")) {
        if (!text || message != null || !whole(message = parser.getText())) {
          return null;
        }
      } else if (otherForm(name) || name.equals("log") || name.startsWith("log.syslog") || name.startsWith("kubernetes")) { // host
        return null;
      } else {
        others = true;
        parser.skipChildren();
      }
    }
    boolean whole = service != null && level != null || !others;
    if (time < 0 || host == null || message == null || !whole || !ends(parser)) {
      return null;
    }
    return RowFactory.create(new Object[] {time, host, service == null ? "" : service, level, message});
  }

  /** Whether a message needs no cutting and has no half characters, and nothing that is meant for a terminal. */
  private static boolean whole(String message) {
    if (message.length() == 0 || message.length() > MAX_MESSAGE) {
      return false;
    }
    for (int i = 0; i < message.length(); i++) {
      if (Character.isSurrogate(message.charAt(i))) {
        return false;
      }
    }
    return message.indexOf('\ufffd') < 0 && message.indexOf('\u001b') < 0;
  }
}
