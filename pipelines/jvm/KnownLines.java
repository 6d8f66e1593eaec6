package kappa;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What a service on a host has written: its log levels, the ids of its templates, and templates of which some words are parameters. */
final class KnownLines {
  private static final String PLACE = "<*>";
  private static final int MOST_IDS = 100000;
  private static final int MOST_PATTERNS = 10000;
  private static final int MOST_LEVELS = 100;
  private static final int ID_LENGTH = 16; // digits of a template's id

  private final Set ids = new HashSet(); // Long
  private final Set levels = new HashSet();
  private final List patterns = new ArrayList();

  /** Whether the service has written a line of this level; that is not known where none is listed. */
  boolean hasLevel(String level) {
    return levels.isEmpty() || levels.contains(level);
  }

  /** Whether the service has written a line of a template, by its id of hexadecimal digits and its text, which may be null. */
  boolean hasTemplate(String id, String template) {
    if (ids.contains(Long.valueOf(Long.parseUnsignedLong(id, 16)))) {
      return true;
    }
    for (int i = 0; template != null && i < patterns.size(); i++) {
      if (matches((String) patterns.get(i), template)) {
        return true;
      }
    }
    return false;
  }

  /** Whether a text is the pattern with other words in its places; a place is one character or more without a space. */
  static boolean matches(String pattern, String text) {
    int place = pattern.indexOf(PLACE);
    if (place < 0) {
      return pattern.equals(text);
    }
    int last = pattern.lastIndexOf(PLACE) + PLACE.length();
    int end = text.length() - (pattern.length() - last); // where the last place ends
    if (end <= place || !text.startsWith(pattern.substring(0, place)) || !text.endsWith(pattern.substring(last))) {
      return false;
    }
    int at = place; // where a place begins in the text; what comes between two is best found as early as it can be
    for (int p = place + PLACE.length(); p < last; p = place + PLACE.length()) {
      place = pattern.indexOf(PLACE, p);
      int found = text.indexOf(pattern.substring(p, place), at + 1);
      if (found < 0 || hasSpace(text, at, found)) {
        return false;
      }
      at = found + place - p;
    }
    return at < end && !hasSpace(text, at, end);
  }

  private static boolean hasSpace(String text, int from, int to) {
    for (int i = from; i < to; i++) {
      if (text.charAt(i) == ' ') {
        return true;
      }
    }
    return false;
  }

  /** Take in the list `known`. Raises IOException for what is none. */
  void takeIds(JsonParser parser, JsonToken token) throws IOException {
    List found = texts(parser, token, MOST_IDS, ID_LENGTH);
    for (int i = 0; i < found.size(); i++) {
      String id = (String) found.get(i);
      if (id.length() != ID_LENGTH) {
        throw new IOException("no list of templates");
      }
      ids.add(Long.valueOf(Long.parseUnsignedLong(id, 16)));
    }
  }

  /** Take in the list `levels`. Raises IOException for what is none. */
  void takeLevels(JsonParser parser, JsonToken token) throws IOException {
    levels.addAll(texts(parser, token, MOST_LEVELS, FlatRecord.MAX_NAME));
  }

  /** Take in the list `patterns`. Raises IOException for what is none. */
  void takePatterns(JsonParser parser, JsonToken token) throws IOException {
    patterns.addAll(texts(parser, token, MOST_PATTERNS, FlatPoint.MAX_SERIES));
  }

  private static List texts(JsonParser parser, JsonToken token, int most, int longest) throws IOException {
    List found = new ArrayList();
    if (token == JsonToken.VALUE_NULL) {
      return found;
    }
    if (token != JsonToken.START_ARRAY) {
      throw new IOException("no list");
    }
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      String text = parser.getText();
      if (parser.currentToken() != JsonToken.VALUE_STRING || text.length() > longest || found.size() == most) {
        throw new IOException("no list of texts");
      }
      found.add(text);
    }
    return found;
  }
}
