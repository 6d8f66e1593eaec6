package kappa;

/** How many bytes the poll of a consumer of Kafka holds by now that a thread is in. ConsumerInterceptors ends polls, ByteArrayDeserializer adds bytes. */
public final class PollBytes {
  private static final ThreadLocal CURRENT = new ThreadLocal() {
    @Override
    protected Object initialValue() {
      return new long[1];
    }
  };

  private PollBytes() {}

  /** The bytes of the thread's poll, of keys, values and headers: one number, in another array for each poll. */
  public static long[] held() {
    return (long[]) CURRENT.get();
  }

  /** The thread's poll has its records; the next one holds nothing yet. */
  public static void next() {
    CURRENT.set(new long[1]);
  }
}
