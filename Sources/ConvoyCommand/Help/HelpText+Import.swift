// The help of `convoy import`.

extension HelpText {
    static let importing = """
        Usage: convoy import [options] FILE

        Reads FILE, which is a HAR, a Postman collection (v2.1 or v2.0) or curl
        commands, and writes its requests as an .http file for convoy run. FILE may be
        -, for standard input.

        Examples:
          convoy import session.har --host 'api.*' -o api.http
          convoy import shop.postman_collection.json > shop.http
          convoy import - < curl-lines.txt

        \(Subcommand.import.options.helpByGroup)

        Each request has a name and its title. Credentials, cookies, keys and tokens
        become variables. Their values come from the environment of the process, or
        from --variable of convoy run. With --keep-secrets the file contains them.

        If a request of a HAR uses a value of an earlier response, such as a token or a
        cookie, the file refers to that response: {{login.response.body.$.token}}. Then
        convoy run sends the requests in that order, with new values.

        Postman scripts become response handlers where these can do the same. convoy
        reports what it omits on standard error, and in a comment above the request.

        Exit status:
          0    the requests were written
          1    they could not be written
          2    usage error, or a document that cannot be read; no file was written
          141  standard output was closed
        """
}
