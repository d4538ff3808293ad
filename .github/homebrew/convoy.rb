# The formula for a tap: copy it to Formula/convoy.rb there, with OWNER and the digest of the tag's archive.
#
# Never run: neither Homebrew nor a Mac was at hand. The command has only been type-checked for macOS.
class Convoy < Formula
  desc "Downloads lists of URLs and runs .http files, many requests at a time"
  homepage "https://github.com/OWNER/convoy"
  url "https://github.com/OWNER/convoy/archive/refs/tags/v0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on xcode: ["26.0", :build]
  depends_on macos: :sequoia

  uses_from_macos "curl"
  uses_from_macos "sqlite"

  on_linux do
    depends_on "swift" => :build
  end

  def install
    static = OS.linux? ? ["--static-swift-stdlib"] : []
    system "swift", "build", "--disable-sandbox", "-c", "release", "--product", "convoy", *static
    bin.install ".build/release/convoy"
    generate_completions_from_executable(bin/"convoy", "completions")
    (buildpath/"convoy.1").write Utils.safe_popen_read(bin/"convoy", "help", "man")
    man1.install "convoy.1"
  end

  test do
    assert_match "convoy #{version}", shell_output("#{bin}/convoy --version")
    (testpath/"events.jsonl").write "{\"event\":\"finished\",\"index\":0}\n"
    assert_match "1 succeeded", shell_output("#{bin}/convoy report events.jsonl")
  end
end
