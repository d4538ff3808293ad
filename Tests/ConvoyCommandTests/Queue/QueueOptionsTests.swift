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

    @Test func whatAJobGetsIsTaken() throws {
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

    @Test func whichJobsAreMeantIsTaken() throws {
        let arguments = ["list", "--db", "a", "--state", "dead", "--state", "waiting", "--kind", "order", "17", "18"]
        let options = try #require(try QueueOptions(parsing: arguments))
        #expect(
            options.selection
                == JobSelection(ids: ["17", "18"], states: [.dead, .waiting], kind: "order"))
        #expect(try QueueOptions(parsing: ["--help"]) == nil)
        #expect(try QueueOptions(parsing: ["list", "-h"]) == nil)
    }

    @Test(arguments: [
        ([], "there is no command; write convoy queue add|run|status|list|retry|cancel|export --db FILE"),
        (["lst"], "there is no command \"lst\"; did you mean list?"),
        (["status"], "there is no queue; name its file with --db FILE, or --db postgres://user@host/database"),
        (["status", "--db", "a", "b"], "status takes only options, and got \"b\""),
        (["add", "--db", "a"], "there is no URL: write one, or -i FILE for a list of them"),
        (["add", "--db", "a", ""], "URL 1 is empty; is a variable of the shell not set?"),
        (
            ["add", "--db", "a", "-o", "b", "x.de/1", "x.de/2"],
            "-o is the file of the only URL; -P DIR is a directory for the files of several"
        ),
        (
            ["add", "--db", "a", "--priority", "hihg", "x.de"],
            "--priority takes very-low, low, normal, high or very-high, not \"hihg\"; did you mean high?"
        ),
        (["add", "--db", "a", "--watch", "x.de"], "there is no option --watch: it is of convoy queue run"),
        (["run", "--db", "a", "--quiet", "--json"], "--quiet and --json exclude each other; give one of them"),
        (["add", "--db", "a", "-o", "-", "x.de"], "-o - is for convoy fetch: the answer of a job goes to a file"),
        (["list", "--db", "a", "--tag", "x", "--tag", "y"], "--tag is given twice: jobs are chosen by one tag"),
        (["retry", "--db", "a", "--state", "done"], "only dead letters are sent again; leave --state out"),
        (
            ["retry", "--db", "a"],
            "which jobs? Name their ids, or --kind, --state, --tag or --group; --all is every one"
        ),
        (
            ["cancel", "--db", "a", "--all", "17"],
            "--all means every job: leave out the ids, --kind, --state, --tag and --group"
        ),
    ])
    func mistakesAreTold(arguments: [String], message: String) {
        #expect(throws: UsageError(message, command: "queue")) { try QueueOptions(parsing: arguments) }
    }

    @Test(arguments: ["soon", "0", "-3", "2027-31-01"])
    func whatIsNoDateIsRefused(text: String) {
        #expect(throws: UsageError.self) {
            try QueueOptions(parsing: ["add", "--db", "a", "--not-before", text, "x.de"])
        }
    }
}
