#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Testing

    @testable import Convoy

    /// What the sockets of a loop are watched for, with sockets and without libcurl's.
    @Suite struct CurlSocketsTests {
        /// Two connected sockets, and what watches the first.
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

            /// Lets the first socket be readable.
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
            // It is writable too.
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

        /// What else has happened may be on that connection.
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

        @Test func bytesNobodyAskedForEndTheQuietAndWakeOnce() throws {
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
            // A transfer that was paused goes on.
            pair.sockets.want(1, of: pair.own)
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.found == [pair.own])
        }

        @Test func aSocketWithANumberThatWasAnothersIsWatched() throws {
            for isOpened in [true, false] {
                let (old, new) = (try Pair(), try Pair())
                let sockets = new.sockets
                // One that no other test is given meanwhile.
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
            // As a child has it.
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

        @Test func aFailureOfASocketIsAnEventOfWhatIsWanted() throws {
            let pair = try Pair()
            pair.sockets.noteOpened(pair.own)
            pair.sockets.want(1, of: pair.own)
            shutdown(pair.other, Int32(SHUT_RDWR))
            #expect(pair.sockets.wait(milliseconds: 0))
            #expect(pair.sockets.ready.map(\.events) == [1])
        }
    }
#endif
