package kappa;

import java.nio.charset.StandardCharsets;

/**
 * The bytes of a flat canonical log record in its most usual form -> event time, host, service, level and message, without an object
 * for any of them. False for whatever else, good or not: `FlatLine` gives that to a parser of JSON.
 *
 * <p>Usual are, besides what `PlainRecord` says: the five members, of which those of service and level may be missing, and a message whose
 * escapes are of one character.
 */
final class PlainLine extends PlainRecord {
  private static final int LEVEL_PART = 2, PARTS = 3;
  private static final byte[] LEVEL = bytes("log.level"), MESSAGE = bytes("message");

  /** The message of the record that was read last: ASCII, from `messageBegin` to `messageEnd`. */
  byte[] message;
  int messageBegin;
  int messageEnd;

  private byte[] unescaped = new byte[512];

  PlainLine() {
    super(PARTS);
  }

  /** Whether a record is of the usual form; then the fields hold what it says. */
  boolean read(byte[] record) {
    if (!opens(record)) {
      return false;
    }
    message = null;
    do {
      if (!string() || !take(':')) {
        return false;
      }
      int from = begin, to = end;
      if (is(MESSAGE, from, to)) {
        if (message != null || !message()) {
          return false;
        }
      } else if (is(TIME, from, to)) {
        if (!time()) {
          return false;
        }
      } else if (is(HOST, from, to)) {
        if (!part(HOST_PART)) {
          return false;
        }
      } else if (is(SERVICE, from, to)) {
        if (!part(SERVICE_PART)) {
          return false;
        }
      } else if (!is(LEVEL, from, to) || !part(LEVEL_PART)) {
        return false;
      }
    } while (take(','));
    if (begins[SERVICE_PART] < 0) {
      begins[SERVICE_PART] = ends[SERVICE_PART] = 0;
    } else if (!isName(SERVICE_PART)) {
      return false;
    }
    if (!closes() || micros < 0 || !isName(HOST_PART) || message == null) {
      return false;
    }
    int size = messageEnd - messageBegin;
    return size > 0 && size <= FlatLine.MAX_MESSAGE;
  }

  String host() {
    return named(HOST_PART);
  }

  String service() {
    return named(SERVICE_PART);
  }

  /** As it was given; null where it was not. */
  String level() {
    return begins[LEVEL_PART] < 0 ? null : named(LEVEL_PART);
  }

  String messageText() {
    return ascii(message, messageBegin, messageEnd);
  }

  private String named(int part) {
    return ascii(text, begins[part], ends[part]);
  }

  private static String ascii(byte[] from, int start, int stop) {
    return new String(from, start, stop - start, StandardCharsets.ISO_8859_1);
  }

  /** The string that begins here is the message. */
  private boolean message() {
    space();
    final int first = at + 1; // behind the quotation mark, if there is one
    if (string()) {
      message = text;
      messageBegin = begin;
      messageEnd = end;
      return true;
    }
    return at >= first && at < text.length && text[at] == '\\' && unescaped();
  }

  /** The rest of the message, from its first escape on. */
  private boolean unescaped() {
    if (unescaped.length < text.length) {
      unescaped = new byte[2 * text.length];
    }
    int length = at - begin;
    System.arraycopy(text, begin, unescaped, 0, length);
    for (; at < text.length; at++) {
      byte c = text[at];
      if (c == '"') {
        message = unescaped;
        messageBegin = 0;
        messageEnd = length;
        at++;
        return true;
      }
      if (c == '\\') {
        at++;
        c = at < text.length ? escaped(text[at]) : (byte) 0;
        if (c == 0) {
          return false;
        }
      } else if (c < 0x20) {
        return false;
      }
      unescaped[length++] = c;
    }
    return false;
  }

  /** What a character behind a backslash stands for, if that is one; 0 for any other. */
  private static byte escaped(byte c) {
    switch (c) {
      case '"':
      case '\\':
      case '/':
        return c;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      default:
        return 0;
    }
  }
}
