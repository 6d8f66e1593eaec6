package kappa;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The different keys of a record, and how many of them have one hash in the table that a parser of Jackson keeps.
 *
 * <p>Spark's parsers share such a table among the records of a task. Where some 300 keys of one bucket are in a record, the table
 * counts wrong from then on, and a later record whose keys make it grow cannot be read. Anybody can make such keys: of two of the same
 * length with the same sum the hash is the same, whatever it begins with.
 */
final class KeyHashes {
  static final int MOST = 64; // a bucket has room for 150, of all records of a task; at most one overflow in a record does no harm
  private static final int FACTOR = 33;

  private final String[] first = new String[MOST]; // keys: records of so few, as most are, need no look
  private int many = 0;
  private final Map found = new HashMap(); // length and hash -> the key, or a set of keys

  /** Looks at a key of the record; answers whether too many others have its hash. */
  boolean tooMany(String key) {
    if (many < MOST) {
      first[many++] = key;
      return false;
    }
    for (; many < 2 * MOST; many++) {
      added(first[many - MOST]);
    }
    return added(key);
  }

  private boolean added(String key) {
    int hash = 0;
    for (int i = 0; i < key.length(); i++) {
      hash = FACTOR * hash + key.charAt(i);
    }
    Long of = Long.valueOf((long) key.length() << 32 | hash & 0xffffffffL);
    Object before = found.get(of);
    if (before == null) {
      found.put(of, key);
      return false;
    }
    if (before.equals(key)) {
      return false;
    }
    Set keys = before instanceof Set ? (Set) before : new HashSet();
    if (before instanceof String) {
      keys.add(before);
      found.put(of, keys);
    }
    keys.add(key);
    return keys.size() > MOST;
  }
}
