package kappa;

import java.util.HashMap;
import java.util.Map;
import java.util.StringTokenizer;

/**
 * Members of a record that are wanted, by their paths. A dot in a key means the same as an object in an object: `host.name` is
 * `{"host.name": ...}` and `{"host": {"name": ...}}`.
 */
final class MemberPaths {
  // what a member has to be: a text, a number or a truth value; these, an object or an array; an object; an array
  static final String SCALAR = "s", ANY = "a", OBJECT = "o", LIST = "l";

  final Node root = new Node();
  final int many;

  /** `paths` has a line for each: one of the letters above, a space, and the path. The number of its line is that of the member. */
  MemberPaths(String paths) {
    int number = 0;
    for (StringTokenizer lines = new StringTokenizer(paths, "\n"); lines.hasMoreTokens(); number++) {
      String line = lines.nextToken();
      Node member = root.made(line.substring(2).split("\\."), 0);
      member.number = number;
      member.kind = line.substring(0, 1);
    }
    many = number;
  }

  static final class Node {
    private final Map children = new HashMap(); // by keys, with dots or without
    int number = -1; // of the member that it is
    String kind;

    /** What a key leads to; null for nothing that is wanted. */
    Node child(String key) {
      return (Node) children.get(key);
    }

    boolean wants(String wanted) {
      return number >= 0 && (wanted.equals(kind) || ANY.equals(kind));
    }

    /** The node at the end of a path, of which the parts from one on are left. */
    private Node made(String[] path, int from) {
      if (from == path.length) {
        return this;
      }
      Node next = child(path[from]);
      if (next == null) {
        next = new Node();
        children.put(path[from], next);
      }
      Node last = next.made(path, from + 1);
      String key = path[from];
      Node node = next;
      for (int to = from + 1; to < path.length; to++) {
        node = node.child(path[to]);
        key += "." + path[to];
        children.put(key, node);
      }
      return last;
    }
  }
}
