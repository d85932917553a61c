// OfficialFollower KUBECONFIG RESTRICTED NAME NAMESPACE: the official client `client-java` as a follower of tests/clients/follow.py.

import com.google.gson.JsonParser;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1Eviction;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import java.io.File;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;

class OfficialFollower extends Follower {
  final String name;
  final String namespace;
  final String restricted;
  final ApiClient client;
  final CoreV1Api core;
  SharedIndexInformer<V1ConfigMap> informer;

  public static void main(String[] arguments) throws Exception {
    new OfficialFollower(arguments).run();
  }

  OfficialFollower(String[] arguments) throws Exception {
    restricted = arguments[1];
    name = arguments[2];
    namespace = arguments[3];
    client = client(arguments[0]);
    core = new CoreV1Api(client);
  }

  static ApiClient client(String kubeconfig) throws Exception {
    KubeConfig config = KubeConfig.loadKubeConfig(new FileReader(kubeconfig));
    config.setFile(new File(kubeconfig));
    return ClientBuilder.kubeconfig(config).build();
  }

  /** Checks that the call ends with the client's own exception, which tells the server's Status. */
  static void refused(String what, int code, String reason, Deed deed) throws Exception {
    try {
      check(what, false, deed.done());
    } catch (ApiException error) {
      String found = JsonParser.parseString(error.getResponseBody()).getAsJsonObject().get("reason").getAsString();
      check(what, error.getCode() == code && found.equals(reason), error.getCode() + " " + error.getResponseBody());
    }
  }

  static V1ConfigMap map(String name, String value) {
    return new V1ConfigMap().apiVersion("v1").kind("ConfigMap").metadata(new V1ObjectMeta().name(name)).data(Map.of("a", value));
  }

  V1ConfigMap patch(String name, String type, String body, String manager, Boolean force) throws ApiException {
    return PatchUtils.patch(
        V1ConfigMap.class,
        () -> core.patchNamespacedConfigMap(name, this.name, new V1Patch(body)).fieldManager(manager).force(force).buildCall(null),
        type,
        client);
  }

  V1ConfigMap apply(String manager, String value, Boolean force) throws ApiException {
    return patch("applied", V1Patch.PATCH_FORMAT_APPLY_YAML, client.getJSON().serialize(map("applied", value)), manager, force);
  }

  void answers() throws Exception {
    List<String> found = new ArrayList<>();
    String following = null;
    do {
      V1ConfigMapList page = core.listNamespacedConfigMap(namespace).limit(700)._continue(following).execute();
      page.getItems().forEach(it -> found.add(it.getMetadata().getName()));
      following = page.getMetadata().getContinue();
    } while (following != null && !following.isEmpty());
    say("paged", found.size(), new HashSet<>(found).size());

    refused("404", 404, "NotFound", () -> core.readNamespacedConfigMap("missing", name).execute());
    V1ConfigMap stale = core.createNamespacedConfigMap(name, map("one", "1")).execute();
    refused("409 of what is there", 409, "AlreadyExists", () -> core.createNamespacedConfigMap(name, map("one", "1")).execute());
    patch("one", V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH, "{\"data\": {\"b\": \"2\"}}", null, null);
    refused("409 of what has changed", 409, "Conflict", () -> core.replaceNamespacedConfigMap("one", name, stale).execute());
    refused("422", 422, "Invalid", () -> core.createNamespacedConfigMap(name, map("Not_A_Name", "1")).execute());
    V1Eviction eviction = new V1Eviction().metadata(new V1ObjectMeta().name("guarded").namespace(name));
    refused("429", 429, "TooManyRequests", () -> core.createNamespacedPodEviction("guarded", name, eviction).execute());
    if (!restricted.isEmpty()) {
      refused("403", 403, "Forbidden", () -> new CoreV1Api(client(restricted)).listNamespacedSecret(name).execute());
    }
    check("an apply", apply("first", "1", null).getData().equals(Map.of("a", "1")), "other data");
    refused("409 of an apply", 409, "Conflict", () -> apply("second", "2", null));
    check("an apply by force", apply("second", "2", true).getData().equals(Map.of("a", "2")), "other data");
  }

  void late() throws Exception {
    var call = core.listNamespacedConfigMap(namespace).resourceVersion("1").timeoutSeconds(5).watch(true).buildCall(null);
    try (Watch<V1ConfigMap> watch = Watch.createWatch(client, call, new com.google.gson.reflect.TypeToken<Watch.Response<V1ConfigMap>>() {}.getType())) {
      Watch.Response<V1ConfigMap> first = watch.hasNext() ? watch.next() : null;
      check("410", first != null && first.type.equals("ERROR") && Objects.equals(first.status.getCode(), 410), first == null ? "no event" : first.type);
    } catch (ApiException error) {
      check("410", error.getCode() == 410, error);
    }
  }

  void follow() {
    var factory = new SharedInformerFactory(client);
    informer =
        factory.sharedIndexInformerFor(
            asked ->
                core.listNamespacedConfigMap(namespace)
                    .labelSelector("follower!=" + name)
                    .resourceVersion(asked.resourceVersion)
                    .timeoutSeconds(asked.timeoutSeconds)
                    .watch(asked.watch)
                    .buildCall(null),
            V1ConfigMap.class,
            V1ConfigMapList.class);
    informer.addEventHandler(
        new ResourceEventHandler<>() {
          public void onAdd(V1ConfigMap object) {
            say("put", object.getMetadata().getName(), object.getMetadata().getResourceVersion());
          }

          public void onUpdate(V1ConfigMap old, V1ConfigMap object) {
            onAdd(object);
          }

          public void onDelete(V1ConfigMap object, boolean unknown) {
            say("gone", object.getMetadata().getName());
          }
        });
    factory.startAllRegisteredInformers();
  }

  void held() {
    informer.getIndexer().list().forEach(it -> say("held", it.getMetadata().getName(), it.getMetadata().getResourceVersion()));
  }
}
