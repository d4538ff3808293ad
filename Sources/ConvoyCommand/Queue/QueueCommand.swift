import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation

struct QueueCommand: Sendable {
    let options: QueueOptions

    func run(_ interruption: Interruption) async throws(UsageError) -> ExitStatus {
        let allowsLive = options.verb == .run && !options.fetch.isQuiet && !options.fetch.isJSON
        let console = Console(allowsLive: allowsLive, isJSON: options.fetch.isJSON)
        interruption.watch(console)
        let work: any QueueWork
        switch options.verb {
        case .add: work = try QueueAdding(options, console: console, interruption: interruption)
        case .run: work = try QueueRun(options, console: console, interruption: interruption)
        case .status, .list, .why, .retry, .cancel, .delete, .export:
            work = QueueLooking(options: options, console: console, interruption: interruption)
        }
        do throws(QueueError) {
            let store = try await open()
            let status: ExitStatus
            do throws(QueueError) { status = try await work.work(on: store) } catch {
                await store.close()
                throw error
            }
            await store.close()
            return console.status(after: interruption.reason ?? status)
        } catch {
            console.printError("convoy: \(error.message)", isFailure: true)
            return error.code == .invalidJob || error.code == .unknownJob ? .usage : .failure
        }
    }

    // Only `add` creates a database, so that the other verbs report a mistyped name.
    private func open() async throws(QueueError) -> any Store {
        let database = options.database
        if let end = database.range(of: "://") {
            // The message does not quote the text, which may contain a password.
            guard ["postgres", "postgresql"].contains(database[..<end.lowerBound].lowercased()) else {
                throw QueueError(
                    .unavailable, "--db takes a file or postgres://user@host/database, and the given address is neither"
                )
            }
            return try await PostgresStore("postgres" + database[end.lowerBound...])
        }
        guard !DatabaseAddress.mayHoldPassword(database) else {
            throw QueueError(
                .unavailable,
                "--db takes a file or postgres://user@host/database; the given text is not shown, because it may contain a "
                    + "password (write ./ before the name of such a file)")
        }
        let file = URL(filePath: database, directoryHint: .notDirectory).absoluteURL
        var status = stat()
        let isThere = stat(file.path, &status) == 0 ? status.st_size > 0 : errno != ENOENT
        guard isThere || options.verb == .add else {
            throw QueueError(
                .unavailable, "no queue exists in \(file.path); convoy queue add --db \(database) URL creates one")
        }
        return try SQLiteStore(at: file)
    }
}

protocol QueueWork: Sendable {
    func work(on store: any Store) async throws(QueueError) -> ExitStatus
}
