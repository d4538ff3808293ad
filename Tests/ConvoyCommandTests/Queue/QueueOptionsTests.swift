import Convoy
import ConvoyQueue
import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct QueueOptionsTests {
    @Test func addressesAmongTheArgumentsAreWrittenOver() {
        let arguments = [
            "convoy", "queue", "--db", "postgres://me:s3cret@host/db", "--db=postgres://host/db?password=s3cret",
            "--db=host=a password=s3cret", "--db", "jobs.db", "https://host/a",
        ]
        let copies = arguments.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        var pointers = copies
        DatabaseAddress.hide(in: &pointers, Int32(pointers.count))
        let shown = copies.map { $0.map { String(cString: $0) } ?? "" }
        #expect(zip(shown, arguments).allSatisfy { $0.0.utf8.count == $0.1.utf8.count })
        #expect(
            shown.map { $0.trimmingCharacters(in: ["*"]) } == [
                "convoy", "queue", "--db", "", "--db=", "--db=", "--db", "jobs.db", "https://host/a",
            ])
    }

    @Test func optionsOfAJobAreParsed() throws {
        let arguments =
            "add --db jobs.db --id a --kind order --after x --after y --priority high --group g --tag t --tag u "
            + "--unique k --policy append --expires 2027-01-31T08:00:00Z -X PUT -d body https://example.com/a"
        let options = try #require(try QueueOptions(parsing: arguments.split(separator: " ").map(String.init)))
        let wishes = options.wishes
        #expect(options.verb == .add && options.database == "jobs.db")
        #expect(wishes.id == "a" && wishes.kind == "order" && wishes.dependencies == ["x", "y"])
        #expect(wishes.priority == .high && wishes.group == "g" && wishes.tags == ["t", "u"])
        #expect(wishes.key == "k" && wishes.policy == .append)
        #expect(wishes.expires == Date(timeIntervalSince1970: 1_801_382_400))
        #expect(options.fetch.sending.sentMethod == .put && options.fetch.urls.count == 1)
    }

    @Test func theSelectionOfJobsIsParsed() throws {
        let arguments = ["list", "--db", "a", "--state", "dead", "--state", "waiting", "--kind", "order", "17", "18"]
        let options = try #require(try QueueOptions(parsing: arguments))
        #expect(
            options.selection
                == JobSelection(ids: ["17", "18"], states: [.dead, .waiting], kind: "order"))
        #expect(try QueueOptions(parsing: ["--help"]) == nil)
        #expect(try QueueOptions(parsing: ["list", "-h"]) == nil)
    }

    @Test(arguments: [
        ("", "a command is missing; write convoy queue add|run|status|list|why|retry|cancel|delete|export --db FILE"),
        ("lst", "unknown command \"lst\"; did you mean list?"),
        ("status", "the queue is missing; name its file with --db FILE, or --db postgres://user@host/database"),
        ("status --db a b", "status takes only options, not \"b\""),
        ("add --db a", "a URL is missing: write one, or -i FILE for a list"),
        ("add --db a ''", "URL 1 is empty; perhaps a shell variable is not set"),
        ("add --db a -o b x.de/1 x.de/2", "-o names the file of a single URL; for several, write -P DIR"),
        (
            "add --db a --priority hihg x.de",
            "--priority takes very-low, low, normal, high or very-high, not \"hihg\"; did you mean high?"
        ),
        ("add --db a --watch x.de", "unknown option --watch: it is an option of convoy queue run"),
        (
            "add --db a -H Accept: x.de",
            "a job cannot omit the accept field, which its worker adds: give the field a value"
        ),
        ("run --db a --quiet --json", "--quiet and --json exclude each other; remove one of them"),
        ("add --db a -o - x.de", "-o - is for convoy fetch: the response to a job is written to a file"),
        ("add --db a -o /tmp x.de", "-o /tmp: a job needs the name of a file; for a directory, write -P /tmp"),
        ("add --db a -o /dev/null x.de", "-o /dev/null: the response to a job needs a regular file"),
        ("list --db a --tag x --tag y", "--tag is given twice; use one tag to select jobs"),
        ("retry --db a --state done", "only dead letters are sent again; remove --state"),
        (
            "delete --db a --state dead --state claimed",
            "only done, dead and cancelled jobs are deleted; remove --state claimed"
        ),
        (
            "retry --db a",
            "the jobs are missing: write their ids, --kind, --state, --tag or --group; --all selects every job"
        ),
        ("cancel --db a --all 17", "--all selects every job: remove the ids, --kind, --state, --tag and --group"),
    ])
    func mistakesAreReported(line: String, message: String) {
        #expect(throws: UsageError(message)) { try QueueOptions(parsing: line.shellWords ?? []) }
    }

    @Test(arguments: ["Expect:", "Transfer-Encoding:", "X-Key:", "Referer:"])
    func aJobOmitsFieldsThatItsWorkerDoesNotAdd(field: String) throws {
        let options = try QueueOptions(parsing: ["add", "--db", "a", "-e", "http://b/", "-H", field, "x.de"])
        #expect(options?.fetch.sending.headerFields.contains("Referer") == (field != "Referer:"))
    }

    /// Foundation parses impossible dates: it takes 30 February as 2 March.
    @Test(arguments: [
        "soon", "0", "-3", "2027-31-01", "2027-02-30T00:00:00Z", "2027-04-31T25:00:00Z", "2027-01-31T08:00:60Z",
        "300000-01-01T00:00:00Z", "2027-01-31T08:00:00+25:00", "2027-01-31T08:00:00Zulu",
        "1000000001",
    ])
    func anInvalidDateIsRefused(text: String) {
        #expect(throws: UsageError.self) {
            try QueueOptions(parsing: ["add", "--db", "a", "--not-before", text, "x.de"])
        }
    }

    @Test(arguments: ["2028-02-29T08:00:00Z", "2028-02-29T10:00:00+02:00", "2028-02-28T20:00:00-1200"])
    func aDateHasAZone(text: String) throws {
        let options = try QueueOptions(parsing: ["add", "--db", "a", "--expires", text, "x.de"])
        #expect(options?.wishes.expires == Date(timeIntervalSince1970: 1_835_424_000))
    }
}
