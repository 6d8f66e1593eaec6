package kappa;

import java.io.File;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Files of this machine with checksums, as Hadoop's `LocalFs` has them.
 *
 * <p>Where Hadoop's native library is missing, that one starts a process for many a thing: `chmod` twice for a new file, and
 * `readlink` eight times to rename it, always with a name that there cannot be. That is 60 ms, and a batch makes six files.
 *
 * <p>A file is on the disk before its writer has closed it, and its name before the renaming of it and its checksums returns. So after a power cut a
 * checkpoint has whole files, of a batch that was the last one at some time. Scratch files do not come through here.
 */
public class LocalFiles extends ChecksumFs {
  /** What Hadoop calls for the file system of a scheme. */
  public LocalFiles(URI uri, Configuration settings) throws IOException, URISyntaxException {
    super(new Plain(uri, settings));
  }

  private static class Plain extends DelegateToFileSystem {
    Plain(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(uri, new Quiet(), settings, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public FsServerDefaults getServerDefaults() throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }

  private static class Quiet extends RawLocalFileSystem {
    @Override
    protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission) throws IOException {
      return new Durable(super.createOutputStreamWithMode(path, append, permission), isChecksums(path.getName()));
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      File renamed = pathToFile(to);
      if (renamed.getName().endsWith(SNAPSHOT)) {
        forceAll(new File(renamed.getParentFile(), TABLES));
      }
      boolean done = super.rename(from, to);
      // A file's checksums are renamed after it, in the same folder: one flush is enough for both names.
      if (isChecksums(renamed.getName()) || !new File(renamed.getParentFile(), "." + from.getName() + CHECKSUMS).exists()) {
        force(renamed.getParentFile());
      }
      return done;
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return getFileStatus(path); // which is what an answer of `readlink` that is always empty comes to
    }

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String symbols = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
    }
  }

  // A snapshot of a state is an archive that names the table files of RocksDB that it consists of. Spark copies those by another
  // interface of Hadoop's, before it writes the archive.
  private static final String SNAPSHOT = ".zip";
  private static final String TABLES = "SSTs";

  private static final String CHECKSUMS = ".crc";

  private static boolean isChecksums(String name) {
    return name.startsWith(".") && name.endsWith(CHECKSUMS);
  }

  private static void forceAll(File folder) throws IOException {
    File[] files = folder.listFiles();
    if (files == null) {
      return;
    }
    for (int i = 0; i < files.length; i++) {
      force(files[i]);
    }
    force(folder);
  }

  private static void force(File file) throws IOException {
    FileChannel channel;
    try {
      channel = FileChannel.open(file.toPath(), new OpenOption[] {StandardOpenOption.READ});
    } catch (java.nio.file.NoSuchFileException gone) {
      return; // deleted meanwhile, as old versions of the state are
    }
    try {
      channel.force(true);
    } finally {
      channel.close();
    }
  }

  // Checksums of one block are whole or empty after a power cut, and Hadoop reads a file without checksums as it is.
  private static final int BLOCK = 4096;

  private static class Durable extends FilterOutputStream {
    private final boolean checksums;
    private long written = 0;
    private boolean open = true;

    Durable(OutputStream file, boolean checksums) {
      super(file);
      this.checksums = checksums;
    }

    @Override
    public void write(int one) throws IOException {
      out.write(one);
      written++;
    }

    @Override
    public void write(byte[] bytes, int from, int count) throws IOException {
      out.write(bytes, from, count);
      written += count;
    }

    @Override
    public void close() throws IOException {
      if (open) {
        open = false;
        try {
          if (!checksums || written > BLOCK) {
            ((Syncable) out).hsync();
          }
        } finally {
          out.close();
        }
      }
    }
  }
}
