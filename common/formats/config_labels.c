/* config.json: the labels of a classifier. */
#include <cjson/cJSON.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"

/* The head's rows: as many as there are labels. */
enum status config_labels_read(struct model_config *mc, const cJSON *root)
{
    const cJSON *labels = json_member(root, "id2label");
    mc->n_labels = mc->classifier ? 2 : 0;
    if (!mc->classifier)
        return ST_OK;
    TRY(json_i32(root, "num_labels", 1, 1 << 16, &mc->n_labels));
    if (labels && (!cJSON_IsObject(labels) || !labels->child))
        FAIL(ST_FORMAT, "id2label must be an object with a member for each label");
    if (labels)
        mc->n_labels = cJSON_GetArraySize(labels);
    return ST_OK;
}
