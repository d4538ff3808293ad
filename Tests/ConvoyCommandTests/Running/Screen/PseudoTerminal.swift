import Foundation
import Testing

#if os(Linux)
    /// A terminal of 50 columns by 6 lines.
    struct PseudoTerminal {
        let master: Int32
        let slave: FileHandle

        init() throws {
            master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
            try #require(master >= 0)
            // On Linux, TIOCSPTLCK unlocks the other end and TIOCGPTN returns its number. The module of Glibc
            // declares neither.
            var (lock, number) = (Int32(0), UInt32(0))
            try #require(ioctl(master, 0x4004_5431, &lock) == 0 && ioctl(master, 0x8004_5430, &number) == 0)
            let descriptor = open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
            try #require(descriptor >= 0)
            var size = winsize(ws_row: 6, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0)
            try #require(ioctl(descriptor, UInt(TIOCSWINSZ), &size) == 0)
            slave = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }

        func read(until text: String? = nil) async -> String {
            await ConvoyProcess.text(from: master, until: text)
        }
    }
#endif
