import ConvoyQueue
import Foundation
import Testing

@Suite final class QueueRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { request in
            switch request.path {
            case "/none": .status(404, body: "a line\nand another")
            case "/down": .status(503)
            default: .status(200, body: "four")
            }
        }
    }

    private func watch(_ options: String...) throws -> ConvoyProcess {
        try ConvoyProcess(["queue", "run", "--watch", "--db", path("jobs.db")] + options)
    }

    private func lines(_ text: String) -> [String] { text.split(separator: "\n").map(String.init) }

    @Test func addedJobsAreSentInOrderAndDone() async throws {
        try await queue("add", "--id", "b", url("/b"), prints: "^b\n$", errors: "")
        try await queue("add", "--id", "a", "--after", "b", "-d", "x=1", "-o", path("answer"), url("/a"))
        let status = try await queue("status")
        #expect(lines(status.output) == ["kind     waiting  blocked", "request        1        1"])
        let run = try await queue("run", errors: "^2 done in ")
        #expect(
            lines(run.output)
                == ["done  b  GET \(url("/b"))  status 200", "done  a  POST \(url("/a"))  status 200"])
        #expect(try content("answer") == "four")
        let sent = try await server.takeRequest()
        let next = try await server.takeRequest()
        #expect(sent.path == "/b" && next.path == "/a" && next.bodyText == "x=1")
        #expect(sent.value(of: "Idempotency-Key") != next.value(of: "Idempotency-Key"))
        // The queue still knows the job, so adding the job again adds nothing.
        try await queue("add", "--id", "b", url("/b"), errors: "^convoy: b exists already, and was not changed\n$")
        #expect(try await queue("run").output == "")
    }

    @Test func aListIsAddedAndItsInvalidLinesAreReported() async throws {
        try write("BASE/a\tx/n.txt\nno url\nBASE/b\n", to: "list")
        _ = try directory.makeDirectory("answers")
        try await queue(
            "add", "-i", path("list"), "--id", "l", "--tag", "t", "-P", path("answers"), status: 1,
            prints: "^l-1\nl-2\n$", errors: "^convoy: \(path("list")):2: it is not a URL")
        try await queue("run", "--quiet")
        #expect(try directory.names(in: "answers") == ["b", "x"] && content("answers/x/n.txt") == "four")
        let listed = try await queue("list", "--tag", "t", "--json")
        #expect(listed.events.map { $0["state"] as? String } == ["done", "done"])
    }

    @Test func deadLettersAreReportedAndSentAgain() async throws {
        try await queue("add", "--id", "n", url("/none"))
        try await queue("add", "--id", "d", url("/down"))
        let run = try await queue("run", "--retries", "1", "--json", status: 1)
        #expect(Set(run.events(named: "failed").map { $0["id"] as? String }) == ["n", "d"])
        #expect(run.events(named: "retry").map { $0["id"] as? String } == ["d"])
        #expect(run.events.last?["left_dead"] as? Int == 2)
        let dead = try await queue("list", "--state", "dead")
        #expect(lines(dead.output).count == 2)
        #expect(dead.output.contains("n  dead  request  GET \(url("/none"))  the server answered 404"))
        try await queue("retry", "d", prints: "^1 job sent again\n$")
        try await queue("retry", "d", status: 1, errors: "^convoy: no dead letter has such an id")
        #expect(try await queue("cancel", "--all").output == "2 jobs cancelled\n")
        #expect(try await queue("status").output.contains("cancelled"))
    }

    @Test func aJobThatDependsOnACancelledJobIsReported() async throws {
        try await queue("add", "--id", "a", url("/a"))
        try await queue("add", "--id", "b", "--after", "a", url("/b"))
        #expect(try await queue("list", "b").output.hasSuffix("  after a\n"))
        #expect(try await queue("cancel", "a").output == "2 jobs cancelled\n")
        let added = try await queue("add", "--id", "c", "--after", "a", url("/c"), status: 1)
        #expect(added.errors == "convoy: c is cancelled, because a job that it depends on was cancelled\n")
        let other = try await queue("list", "b", "--state", "waiting", status: 1)
        #expect(other.errors == "convoy: no selected job has the id b\n")
        try await queue("list", "nosuch", status: 1, errors: "^convoy: no job has the id nosuch\n$")
        try await queue("add", "-o", directory.url.path, url("/c"), status: 2, errors: "for a directory, write -P ")
    }

    @Test func finishedJobsAreDeleted() async throws {
        try await queue("add", "--id", "a", url("/a"))
        try await queue("add", "--id", "n", url("/none"))
        try await queue("add", "--id", "b", "--after", "n", url("/b"))
        try await queue("run", "--quiet", status: nil)
        // The dead letter's dependent is cancelled, and an unfinished job is not deleted.
        try await queue(
            "delete", "b", status: 1, prints: "^0 jobs deleted\n$", errors: "^convoy: no finished job has such an id")
        #expect(try await queue("delete", "--state", "dead").output == "1 job deleted\n")
        #expect(try await queue("list", "--json").events.map { $0["id"] as? String } == ["a", "b"])
        #expect(try await queue("list", "b", "--json").events.first?["state"] as? String == "cancelled")
        #expect(try await queue("delete", "--all", "--json").events.first?["count"] as? Int == 2)
        #expect(try await queue("status").output == "no jobs\n")
        // The id can be used again.
        #expect(try await queue("add", "--id", "a", url("/a")).errors == "")
    }

    @Test func whyAJobWaitsIsPrinted() async throws {
        try await queue("add", "--id", "n", url("/none"))
        try await queue("add", "--id", "b", "--after", "n", url("/b"))
        #expect(
            try await queue("why", "n", "b").output == """
                n  it is ready, and waits for its turn
                b  it waits for n (dependency, waiting)

                """)
        try await queue("run", "--quiet", status: nil)
        let dead = try await queue("why", "n", "--json")
        #expect(dead.events.first?["id"] as? String == "n")
        #expect((dead.events.first?["why"] as? String)?.hasPrefix("it is a dead letter: ") == true)
        let unknown = try await queue("why", "n", "nosuch", status: 1)
        #expect(unknown.output.hasPrefix("n  it is a dead letter: "))
        #expect(unknown.errors == "convoy: no job has the id nosuch\n")
    }

    @Test func aListShowsWhenAJobIsDue() async throws {
        try await queue("add", "--id", "a", "--not-before", "2100-01-31T08:00:00Z", url("/a"))
        try await queue(
            "add", "--id", "b", "--after", "a", "--not-before", "2100-01-31T09:00:00Z", url("/b"))
        try await queue("add", "--id", "d", url("/down"))
        let listed = lines(try await queue("list").output)
        try #require(listed.count == 3)
        #expect(listed[0].contains("  due 2100-01-31T08:00:00Z, in ") && listed[0].hasSuffix(" min"))
        #expect(listed[1].hasSuffix("  after a  not before 2100-01-31T09:00:00Z"))
        #expect(!listed[2].contains("due"))
        let dates = try await queue("list", "--json").events.map { $0["due"] as? String }
        #expect(dates == ["2100-01-31T08:00:00Z", nil, nil])
    }

    @Test(arguments: ["id", "after", "why"])
    func aLongWrongIdIsNotRepeatedWhole(option: String) async throws {
        if option == "why" { try await queue("add", url("/a")) }
        let id = String(repeating: "0123456789", count: 60)
        let ending =
            option == "why"
            ? try await queue("why", id, status: 1) : try await queue("add", "--\(option)", id, url("/a"), status: 2)
        #expect(ending.output == "")
        #expect(ending.errors.contains("0123456789") && ending.errors.utf8.count < 300, "\(ending.errors)")
    }

    @Test func secretsAreRefusedAndGivenToTheRun() async throws {
        let refused = try await queue(
            "add", "-H", "Authorization: Bearer s3cret", url("/a"), status: 2,
            errors: ["Authorization is a secret, and secrets are never stored", "give it to convoy queue run"])
        let inURL = try await queue("add", url("/a").replacing("://", with: "://me:s3cret@"), status: 2)
        #expect(!(refused.errors + inURL.errors).contains("s3cret"))
        try await queue("add", "-H", "X-Order: 17", url("/a"))
        try await queue("run", "-H", "Authorization: Bearer s3cret")
        let sent = try await server.takeRequest()
        #expect(sent.value(of: "Authorization") == "Bearer s3cret" && sent.value(of: "X-Order") == "17")
        try await queue("export", prints: ["X-Order", "!s3cret"])
        let files = try directory.names().filter { $0.hasPrefix("jobs.db") }
        for file in files where !file.hasSuffix("-convoy") {
            #expect(try data(file).range(of: Data("s3cret".utf8)) == nil)
        }
    }

    @Test func aSignalGivesTheJobsBack() async throws {
        let gate = Gate()
        server.respond { _ in .status(200).stalling(until: gate) }
        try await queue("add", "--id", "a", url("/a"))
        let child = try watch()
        try await gate.reached(count: 1, within: .seconds(120))
        child.send(SIGINT)
        try await child.ended(status: 130, errors: "left: 1 waiting")
        gate.open()
        server.respond { _ in .status(200) }
        try await queue("run", "--quiet")
        #expect(try await queue("status").output.contains("done"))
    }

    /// Simulates a deployment.
    ///
    /// After SIGTERM, the running requests finish and are not sent again. A second run sends the waiting requests.
    @Test func aPoliteKillLetsRequestsEnd() async throws {
        let gate = Gate()
        server.respond { _ in .status(200).stalling(until: gate) }
        for number in 1...12 { try await queue("add", "--id", "\(number)", url("/\(number)")) }
        let child = try watch("-j", "4")
        try await gate.reached(count: 4, within: .seconds(120))
        child.send(SIGTERM)
        // The queue releases waiting jobs at once, while the first requests still run.
        //
        // The test reads the store itself. After SIGTERM the command waits at most eight seconds for running requests.
        // On a busy machine, `convoy queue status` may take longer.
        let store = try SQLiteStore(at: URL(filePath: path("jobs.db")))
        var waiting = 0
        let bound = ContinuousClock.now + .seconds(60)
        while waiting != 8, ContinuousClock.now < bound { waiting = try await store.status()[.waiting] }
        #expect(waiting == 8)
        gate.open()
        await store.close()
        try await child.ended(status: 143, errors: "4 done")
        try await queue("run", "--quiet")
        #expect(server.recordedRequests.count == 12)
    }

    @Test func aRedirectThatDropsTheBodyIsAFailureWithoutTheOption() async throws {
        server.respond { $0.path == "/form" ? .redirect(to: "/page") : .status(200) }
        try await queue("add", "--id", "a", "-d", "x=1", url("/form"))
        try await queue("add", "--id", "b", "-d", "x=1", "--redirect-as-get", url("/form"))
        try await queue(
            "run", status: 1, prints: "^done  b ",
            errors: ["failed  a ", "(302) to \(url("/page")) with a GET", "--redirect-as-get"])
    }

    @Test func aWatchSendsJobsThatAreAddedLater() async throws {
        try await queue("add", "--id", "a", url("/a"))
        let child = try watch()
        try await server.requestsReceived(count: 1, within: .seconds(120))
        try await queue("add", "--id", "b", url("/b"))
        try await server.requestsReceived(count: 2, within: .seconds(120))
        child.send(SIGINT)
        try await child.ended(status: 130)
    }

    @Test(arguments: [true, false])
    func aRunWhoseDatabaseIsRemovedEndsWithAnError(isReplaced: Bool) async throws {
        try await queue("add", "--id", "a", url("/a"))
        let child = try watch()
        try await server.requestsReceived(count: 1, within: .seconds(120))
        try FileManager.default.removeItem(atPath: path("jobs.db"))
        if isReplaced { try write("", to: "jobs.db") }
        try await child.ended(status: 1, errors: "\(path("jobs.db")) was moved, replaced or removed")
    }

    @Test(arguments: [[], ["--watch"]])
    func aRunWhoseDatabaseIsDamagedEndsWithAnError(arguments: [String]) async throws {
        try await queue("add", "--id", "a", url("/a"))
        let file = try FileHandle(forWritingTo: directory.file("jobs.db"))
        try file.seek(toOffset: 4_096)
        try file.write(contentsOf: Data(repeating: 0xA5, count: 3 * 4_096))
        try file.close()
        let ending = try await queue("run", arguments, status: 1, errors: "\(path("jobs.db")) is damaged")
        #expect(!ending.errors.contains("trying again"))
    }

    @Test(
        arguments: [
            "host=127.0.0.1 port=1 password=s3cret", "postgres:/me:s3cret@127.0.0.1:1/jobs", "me:s3cret@127.0.0.1/jobs",
            "postgres://me:s3@cret@127.0.0.1:1/jobs", "Postgres://me:s3cret@127.0.0.1:1/jobs",
            "postgress://me:s3cret@127.0.0.1:1/jobs", "mysql://me:s3cret@127.0.0.1:1/jobs",
        ], ["add", "run", "status"])
    func aPasswordOfADatabaseIsNotShown(address: String, verb: String) async throws {
        let ending = try await convoy(
            shell: "cd \"$1\" && shift && exec \"$0\" \"$@\"", directory.url.path, "queue", verb, "--db", address,
            verb == "add" ? [url("/a")] : [String](), status: 1, prints: "!s3", errors: "!s3")
        #expect(!ending.errors.isEmpty)
        #expect(try directory.names() == [])
    }

    @Test func everythingOfAJobIsExported() async throws {
        let body = Data([0xFF, 0, 1])
        try body.write(to: directory.file("body"))
        try await queue(
            "add", "--id", "a", "--priority", "low", "--group", "g", "--unique", "k",
            "--data-binary", "@\(path("body"))",
            url("/a"))
        try await queue("add", "--id", "b", "--json-body", #"{"ü":1}"#, url("/b"))
        let jobs = try await queue("export").events
        #expect(jobs.map { $0["id"] as? String } == ["a", "b"])
        #expect(jobs.first?["body_base64"] as? String == body.base64EncodedString())
        #expect(jobs.last?["body"] as? String == #"{"ü":1}"#)
        #expect(jobs.first?["group"] as? String == "g" && jobs.first?["priority"] as? Int == -4)
        #expect(try await queue("export", "--limit", "1").events.count == 1)
    }

    @Test func aDatabaseThatCannotBeUsedIsReported() async throws {
        try await queue("status", status: 1, errors: "no queue exists in \(path("jobs.db"))")
        #expect(try directory.names() == [])
        try write("no database, but a text that is long enough to be looked at", to: "jobs.db")
        try await queue("add", url("/a"), status: 1, errors: [path("jobs.db")])
        try write("", to: "jobs.db")
        #expect(try await queue("status", status: nil).errors.contains("no queue exists in"))
        #expect(try directory.names() == ["jobs.db"])
    }
}

@Suite final class QueueListsTests: CommandTests {
    private static let digest = String(repeating: "0", count: 64)
    private static let metalink = "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"a\">"

    @Test(arguments: [
        ("\(digest)  image.iso\n", ":1", "verify digests"),
        ("BASE/a\n# b\nBASE/b\tb\tsha256:\(digest)\n", ":3", "verify digests"),
        ("BASE/a\nBASE/b\n  checksum=sha-256=\(digest)\n", ":2", "verify digests"),
        ("BASE/a\n{\"url\":\"BASE/b\",\"sha256\":\"\(digest)\"}\n", ":2", "verify digests"),
        ("BASE/a\nBASE/b\tBASE/c\n", ":2", "use mirrors"),
        // More lines than one transaction has.
        (String(repeating: "BASE/a\n", count: 1_200) + "BASE/b\tBASE/c\n", ":1201", "use mirrors"),
        (
            metalink + "<hash type=\"sha-256\">\(digest)</hash>\n<url>BASE/a</url></file></metalink>", "",
            "verify digests"
        ),
        (metalink + "<size>5</size><url>BASE/a</url></file></metalink>\n", "", "verify sizes"),
    ])
    func aListWithDigestsOrMirrorsIsRefused(list: String, line: String, reason: String) async throws {
        try await queue(
            "add", "-i", write(list, to: "list"), "--base", "http://127.0.0.1:9/", status: 2, prints: "",
            errors: ["^convoy: \(path("list"))\(line): the queue cannot \(reason)", "convoy fetch"])
        #expect(try await queue("status").output == "no jobs\n")
    }

    @Test func aDigestOnStandardInputIsRefused() async throws {
        try await convoy(
            shell: "cat \"$1\" | \"$0\" queue add --db \"$2\" -i - --base http://127.0.0.1:9/",
            write("\(Self.digest)  image.iso\n", to: "list"), path("jobs.db"), status: 2, prints: "",
            errors: "http://127.0.0.1:9/image.iso: the queue cannot verify digests")
        #expect(try await queue("status").output == "no jobs\n")
    }
}

/// Tests which secrets a queue stores and prints, both those of jobs and those of `run`.
@Suite final class QueueSecretsTests: CommandTests {
    private let other: TestServer

    override init() throws {
        other = try TestServer()
        try super.init()
        SecretMixture.answer(with: server, and: other)
    }

    @Test(arguments: [["--json"], ["-v"], []])
    func secretsOfARunAreInNothingThatIsSaidOrKept(arguments: [String]) async throws {
        var random = SystemRandomNumberGenerator()
        let words = ["there", "busy", "denied", "none", "cut", "here/there", "elsewhere302/none", "elsewhere307/there"]
        let list = (1...max(10, SecretMixture.count / 2)).map { number in
            // The queue stores the query. Its output contains only the names in the query.
            let query = Bool.random(using: &random) ? "?access_token=hUnT3r.\(number).query." : ""
            return "BASE/\(words[number % words.count])\(query)\n"
        }
        let added = try await queue("add", "-i", write(list.joined(), to: "list"))
        let run = try await queue(
            "run", arguments, "--retries", "0", "-j", "32", "--per-host", "32", "--har", path("a.har"), "-H",
            "X-Api-Key: hUnT3r.0.key.", "-b", "sid=hUnT3r.0.sent.", "-u", "me:hUnT3r.0.password.", status: 1)
        for text in [run.output, run.errors, added.output + added.errors, try content("a.har")] {
            SecretMixture.expectNone(in: text, "what was said")
        }
        for verb in ["list", "status"] {
            for options in [[], ["--json"]] {
                let told = try await queue(verb, options)
                #expect(!told.output.isEmpty)
                SecretMixture.expectNone(in: told.output + told.errors, verb)
            }
        }
        for name in try directory.names().filter({ $0.hasPrefix("jobs.db") }) {
            guard let kept = (try? data(name)).map({ String(decoding: $0, as: UTF8.self) }) else { continue }
            #expect(!kept.contains("hUnT3r.0.key.") && !kept.contains("hUnT3r.0.sent.") && !kept.contains("aFVuVDNy"))
        }
        // `run` sends its secrets only to the servers of jobs, not to the targets of redirects.
        #expect(server.recordedRequests.allSatisfy { $0.value(of: "X-Api-Key") == "hUnT3r.0.key." })
        #expect(other.requestCount > 0)
        for request in other.recordedRequests {
            #expect(["X-Api-Key", "Authorization", "Cookie"].allSatisfy { request.value(of: $0) == nil })
        }
    }
}
