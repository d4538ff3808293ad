// The help of `convoy run`.

extension HelpText {
    static let run = """
        Usage: convoy run [options] FILE.http [NAME...]

        Sends the requests of a file, as REST Client and JetBrains write them, or those
        that are named and what they need. Where one refers to the answer of another,
        {{login.response.body.$.token}}, it waits for that one; all others run at the
        same time. One that fails ends what needs it, unsent. Everything that is wrong
        with a file is told before anything is sent.

        Examples:
          convoy run api.http
          convoy run --env staging --variable user=ada api.http login profile
          convoy run --dry-run api.http
          convoy run --show both api.http login
          convoy run --report report.html api.http

        \(Subcommand.run.options.helpByGroup)

        In a file:
        \(requestFiles)

        Exit status:
        \(exitStatuses)
        """

    /// The supported syntax of request files.
    static let requestFiles = """
          ###, ### title          another request
          # @name login           the name that others refer to it by
          METHOD URL              then header fields, a blank line and the body
          @name = value           a variable; {{name}} is its value, {{%name}} encoded.
                                  What comes from an answer or a row is encoded in a
                                  path, query or form; {{&name}} leaves it as it is
          {{login.response.body.$.a[0].b}}, {{login.response.headers.Name}},
          {{login.response.cookies.name}}
          {{$uuid}} {{$timestamp -1 d}} {{$datetime iso8601}} {{$randomInt 1 10}}
          {{$processEnv NAME}} {{$dotenv NAME}}
          # @depends login        wait for a request without referring to it
          # @no-redirect, # @no-cookie-jar, # @disabled
          # @expect status 2xx    also header Name contains text, body.$.id == 3,
                                  body.$.id exists, time < 500ms
          # @timeout 30           seconds, or 500 ms, 2 m
          > {% client.global.set("x", response.body.id) %}
                                  also client.test, assert and log
          < file, <@ file         the body from a file; with @ its variables are read
          >> file, >>! file       where the answer goes; with ! it replaces a file
        Other scripts, prompts and XPath are not done: --skip-scripts leaves out what
        needs them. Requests that change something keep their order on each server.
        """
}
