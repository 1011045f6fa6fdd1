// Reports a dead letter to Lazaret: .NET 7 or newer, nothing to install. As Program.cs of a console project, or with
// .NET 10: dotnet run report.cs
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

var url = Environment.GetEnvironmentVariable("LAZARET_URL") ?? "http://127.0.0.1:7070";
var token = Environment.GetEnvironmentVariable("LAZARET_TOKEN"); // role producer; not needed until the first token exists
using var client = new HttpClient { Timeout = TimeSpan.FromSeconds(30) };
if (token is not null) client.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", token);

const string Event = """{"eventId": "evt-dotnet-1", "pattern": "invoice.created", "payload": {"invoice": 4711}}""";
try
{
    Handle(Event);
}
catch (Exception error) // after the last retry of your own
{
    using var original = JsonDocument.Parse(Event);
    var entry = JsonSerializer.Serialize(new Dictionary<string, object?>
    {
        ["eventId"] = "evt-dotnet-1",
        ["subscriberId"] = "billing",
        ["originalEvent"] = original.RootElement,
        ["error"] = new Dictionary<string, object?>
        {
            ["type"] = error.GetType().FullName,
            ["message"] = error.Message,
            ["stackTrace"] = error.ToString(),
        },
        ["retryCount"] = 3,
        ["maxRetries"] = 3,
    });
    try
    {
        Console.WriteLine(await Report(entry));
    }
    catch (HttpRequestException refused)
    {
        Console.Error.WriteLine(refused.Message);
        return 1;
    }
}
return 0;

// Returns the server's answer. Safe to repeat: a report that was stored before is a duplicate.
async Task<string> Report(string entry, string source = "report")
{
    int[] retried = { 408, 429, 502, 503, 504 };
    for (var pause = 1; ; pause *= 2)
    {
        var last = pause > 16;
        var wait = TimeSpan.FromSeconds(pause);
        try
        {
            using var content = new StringContent(entry, Encoding.UTF8, "application/json");
            using var response = await client.PostAsync($"{url}/api/v1/dead-letters?source={source}", content);
            var answer = await response.Content.ReadAsStringAsync();
            if (response.IsSuccessStatusCode) return answer;
            if (last || !retried.Contains((int)response.StatusCode))
                throw new HttpRequestException($"report refused: {(int)response.StatusCode} {answer}", null, response.StatusCode);
            if (response.Headers.RetryAfter?.Delta is TimeSpan asked && asked > wait) wait = asked;
        }
        // Connection refused, reset or timed out: these carry no status.
        catch (HttpRequestException error) when (error.StatusCode is null && !last) { }
        catch (TaskCanceledException) when (!last) { }
        await Task.Delay(wait);
    }
}

static void Handle(string message) => throw new InvalidOperationException("invoice 4711 has no currency");
