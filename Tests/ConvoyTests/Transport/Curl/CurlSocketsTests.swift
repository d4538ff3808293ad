#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Testing

    @testable import Convoy

    /// Tests the watched events of a loop's sockets, without sockets of libcurl.
    @Suite struct CurlSocketsTests {
        /// Two connected sockets, the first of which is watched.
        private final class Pair {
            let multi: OpaquePointer
            let sockets: CurlSockets
            var own: Int32 = -1
            let other: Int32

            init(mostEvents: Int = 256) throws {
                #expect(CurlLibrary.defect == nil)
                multi = try #require(curl_multi_init())
                sockets = try CurlSockets(for: multi, mostEvents: mostEvents)
                var pair: [Int32] = [-1, -1]
                try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
                (own, other) = (pair[0], pair[1])
            }

            deinit {
                curl_multi_cleanup(multi)
                if own >= 0 { close(own) }
                close(other)
            }

            /// Makes the first socket readable.
            func send() { #expect(write(other, "x", 1) == 1) }

            func receive() {
                var byte: UInt8 = 0
                #expect(read(own, &byte, 1) == 1)
            }

            var found: [Int32] { sockets.ready.map(\.socket) }
        }

        @Test func aWaitNamesTheSocketsWithAnEventThatIsWantedOfThem() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            pair.sockets.want(1, of: pair.own)
            #expect(!pair.sockets.wait(milliseconds: 0))
            #expect(pair.found.isEmpty)
            pair.send()
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.found == [pair.own])
            // The socket is also writable, but that is not wanted.
            #expect(pair.sockets.ready.map(\.events) == [1])
            pair.sockets.want(3, of: pair.own)
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.sockets.ready.map(\.events) == [3])
        }

        @Test func aKeptConnectionIsQuietOnceAWaitHasFoundNothingOnIt() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            #expect(!pair.sockets.isQuiet(pair.own))
            pair.sockets.want(1, of: pair.own)
            #expect(!pair.sockets.wait(milliseconds: 0))
            #expect(!pair.sockets.isQuiet(pair.own))
            pair.sockets.want(0, of: pair.own)
            #expect(!pair.sockets.isQuiet(pair.own))
            #expect(!pair.sockets.wait(milliseconds: 0))
            #expect(pair.sockets.isQuiet(pair.own))
        }

        /// If a wait reports the largest number of events, it may have left out an event of the reused connection.
        @Test func aKeptConnectionIsNotQuietAfterAWaitThatWasFull() throws {
            let (kept, busy) = (try Pair(mostEvents: 1), try Pair())
            let sockets = kept.sockets
            for socket in [kept.own, busy.own] {
                sockets.noteOpened(socket)
                sockets.want(1, of: socket)
            }
            sockets.want(0, of: kept.own)
            #expect(!sockets.wait(milliseconds: 0))
            #expect(sockets.isQuiet(kept.own))
            busy.send()
            #expect(sockets.wait(milliseconds: 0))
            #expect(kept.found == [busy.own])
            #expect(!sockets.isQuiet(kept.own))
            busy.receive()
            #expect(!sockets.wait(milliseconds: 0))
            #expect(sockets.isQuiet(kept.own))
        }

        @Test func unexpectedBytesWakeTheEngineOnce() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            pair.sockets.want(1, of: pair.own)
            pair.sockets.want(0, of: pair.own)
            #expect(!pair.sockets.wait(milliseconds: 0))
            pair.send()
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.found.isEmpty)
            #expect(!pair.sockets.isQuiet(pair.own))
            #expect(!pair.sockets.wait(milliseconds: 0))
            #expect(!pair.sockets.isQuiet(pair.own))
            // The transfer wants events again, as after a pause.
            pair.sockets.want(1, of: pair.own)
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.found == [pair.own])
        }

        @Test func aSocketWithANumberThatWasAnothersIsWatched() throws {
            for isOpened in [true, false] {
                let (old, new) = (try Pair(), try Pair())
                let sockets = new.sockets
                // New descriptors get the lowest free number, so other tests get no number as high as this.
                let number = fcntl(old.own, F_DUPFD, 900)
                try #require(number >= 900)
                close(old.own)
                old.own = -1
                if isOpened { sockets.noteOpened(number) }
                sockets.want(1, of: number)
                sockets.want(0, of: number)
                if isOpened { #expect(sockets.end(number) == 0) } else { #expect(close(number) == 0) }
                #expect(dup2(new.own, number) == number)
                close(new.own)
                new.own = number
                sockets.want(1, of: number)
                new.send()
                #expect(sockets.wait(milliseconds: 0))
                #expect(sockets.ready.map(\.socket) == [number])
            }
        }

        @Test func aClosedSocketIsForgottenThoughAnotherProcessHasItOpen() throws {
            let pair = try Pair()
            // The copy simulates the descriptor that a child process inherits.
            let copy = dup(pair.own)
            defer { close(copy) }
            pair.sockets.noteOpened(pair.own)
            pair.sockets.want(1, of: pair.own)
            #expect(pair.sockets.end(pair.own) == 0)
            pair.own = -1
            pair.send()
            #expect(!pair.sockets.wait(milliseconds: 0))
        }

        @Test func eachSignalEndsOneWait() throws {
            let pair = try Pair()
            for _ in 0..<3 {
                pair.sockets.wakeup.signal()
                #expect(pair.sockets.wait(milliseconds: 0))
                #expect(pair.found.isEmpty)
                #expect(!pair.sockets.wait(milliseconds: 0))
            }
        }

        @Test func aSocketFailureIsReportedAsTheWantedEvent() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            pair.sockets.want(1, of: pair.own)
            shutdown(pair.other, Int32(SHUT_RDWR))
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.sockets.ready.map(\.events) == [1])
        }
    }
#endif
