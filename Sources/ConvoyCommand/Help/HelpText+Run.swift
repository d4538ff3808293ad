// The help of `convoy run`.

extension HelpText {
    static let run = """
        Usage: convoy run [options] FILE.http [NAME...]

        Sends the requests of a file in the format of REST Client and JetBrains, or the
        named requests and their dependencies. A request that refers to the response of
        another, {{login.response.body.$.token}}, waits for that one; all others run at
        the same time. If a request fails, its dependents are not sent. All errors in
        the file are reported before any request is sent.

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

    /// The supported syntax of `.http` files.
    static let requestFiles = """
          ###, ### title          another request
          # @name login           the name that other requests use for it
          METHOD URL              then header fields, a blank line and the body
          @name = value           a variable; {{name}} is its value, {{%name}} encoded.
                                  A value from a response or a row is encoded in a
                                  path, query or form; {{&name}} does not encode it
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
          < file, <@ file         the body from a file; with @ its variables are
                                  replaced
          >> file, >>! file       the file for the response; with ! it replaces a file
        Other scripts, prompts and XPath are not supported: --skip-scripts skips the
        requests that need them. Requests that change something keep their order on
        each server.
        """
}
